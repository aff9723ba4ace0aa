"""The hook of gmlearn_formats."""

from __future__ import annotations

import gmlearn as gm


@gm.hookimpl
def gmlearn_formats():
    import gmlearn_formats as f

    return [f.Wcsp(), f.Cfn(), f.Bif(), f.XmlBif(), f.Wcnf(), f.Qpbo(), f.OpenGM()]
