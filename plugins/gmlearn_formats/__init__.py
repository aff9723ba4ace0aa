"""File formats of other tools: toulbar2, Bayesian networks, MaxSAT, quadratic programs, OpenGM.

=============================  ==============================================================
extension                      what it holds
=============================  ==============================================================
``.wcsp``                      weighted constraint satisfaction (toulbar2), global functions
``.cfn``                       cost function networks (toulbar2), global functions
``.bif``, ``.xml``, ``.xmlbif``  Bayesian networks; energies are minus log-probabilities
``.wcnf``, ``.cnf``            (partial, weighted) MaxSAT
``.qpbo``                      quadratic functions of binary variables
``.h5``, ``.hdf5``             OpenGM's models (needs h5py: the extra ``hdf5``)
=============================  ==============================================================

Text formats are also read with the endings ``.gz`` and ``.xz``. All of them are read only.
"""

import gmlearn as gm

__getattr__, __dir__, __all__ = gm.lazy_exports(__name__)
