"""What this machine has, and what of it would be used.

Each part is looked at apart from the others, and what may crash or hang is looked at in
a process of its own: the answer must come from a half-broken machine too. Imports no
torch.
"""

from .finding import Change, Finding, Outlook
from .survey import Survey, survey

__all__ = ["Change", "Finding", "Outlook", "Survey", "survey"]
