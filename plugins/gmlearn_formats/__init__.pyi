from gmlearn_formats.bif import Bif as Bif
from gmlearn_formats.cfn import Cfn as Cfn
from gmlearn_formats.opengm import OpenGM as OpenGM
from gmlearn_formats.qpbo import Qpbo as Qpbo
from gmlearn_formats.wcnf import Wcnf as Wcnf
from gmlearn_formats.wcsp import Wcsp as Wcsp
from gmlearn_formats.xmlbif import XmlBif as XmlBif
