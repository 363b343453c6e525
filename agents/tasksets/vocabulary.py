"""Words of the quickstart tasks. Each is one token of the tiny policy's tokenizer, in prompt and command alike."""

from __future__ import annotations

_WORDS = """
mango apple lemon cherry grape olive pepper onion garlic carrot potato tomato rice bread butter cheese honey sugar
salt coffee tea milk water juice wine beer
river ocean lake island forest desert mountain valley garden field bridge tower castle temple market school hospital
library museum station
red blue green yellow orange purple silver gold black white brown pink gray
dog cat horse tiger lion bear wolf fox rabbit mouse eagle snake fish shark whale bird
chair table window door lamp mirror clock pillow blanket bottle cup plate spoon knife paper pencil brush paint
train plane boat truck rocket engine wheel anchor compass map radio camera phone
winter summer spring autumn rain snow storm wind cloud sun moon star planet galaxy
music dance song drum piano guitar violin
king queen prince knight dragon wizard angel ghost robot pirate doctor farmer teacher
happy quiet brave gentle smart strong quick sharp bright dark cold warm
iron copper stone glass wood cotton silk leather steel diamond
circle square triangle cube arrow cross
"""

_FILE_STEMS = """
notes data log out info list item report result text key note file record value test page index plan draft memo copy
names total score config start final main temp
"""

WORDS: tuple[str, ...] = tuple(_WORDS.split())
FILE_STEMS: tuple[str, ...] = tuple(_FILE_STEMS.split())
