"""stub"""

from icestream.functions.function import Rows

ROWS: Rows = ()
