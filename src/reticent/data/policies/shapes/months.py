"""Names of months in two dozen languages, in the cases that dates put them in (Unicode CLDR), as one expression.

English is left to its own rules: these know abbreviations, and the order of "May 3, 2021".
"""

from collections.abc import Iterable
from itertools import groupby

_NAMES = """
Januar Februar März April Mai Juni Juli August September Oktober November Dezember Jänner
janvier février mars avril mai juin juillet août septembre octobre novembre décembre
enero febrero marzo abril mayo junio julio agosto septiembre setiembre octubre noviembre diciembre
gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre
januari februari maart april mei juni juli augustus september oktober november december
janeiro fevereiro março maio junho julho setembro outubro novembro dezembro
stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia
styczeń luty marzec kwiecień maj czerwiec lipiec sierpień wrzesień październik listopad grudzień
augusti marts august januar februar desember
tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta syyskuuta lokakuuta
marraskuuta joulukuuta
ledna února března dubna května června července srpna října listopadu prosince leden únor březen duben květen
červen červenec srpen září říjen prosinec
januára februára apríla mája júna júla augusta septembra októbra novembra decembra
ianuarie februarie martie aprilie iunie iulie septembrie octombrie noiembrie decembrie
január február március április május június július augusztus szeptember október
Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık
siječnja veljače ožujka travnja svibnja lipnja srpnja kolovoza rujna studenoga prosinca
января февраля марта апреля мая июня июля августа сентября октября ноября декабря
январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь
січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня
януари февруари април юни юли септември октомври ноември декември
Ιανουαρίου Φεβρουαρίου Μαρτίου Απριλίου Μαΐου Ιουνίου Ιουλίου Αυγούστου Σεπτεμβρίου Οκτωβρίου Νοεμβρίου Δεκεμβρίου
gener febrer març maig juny juliol agost setembre novembre desembre
"""
# As they are written in small letters and with a capital.
NAMES = frozenset(form for name in _NAMES.split() for form in (name.lower(), name[0].upper() + name[1:]))


def one_of(words: Iterable[str]) -> str:
    """An expression that any of the words matches, parted by their first letters: a look at one rules out most."""
    parts = []
    for first, group in groupby(sorted(set(words)), key=lambda word: word[0]):
        rests = sorted((word[1:] for word in group), key=len, reverse=True)
        parts.append(f"{first}(?:{'|'.join(rests)})")
    return f"(?:{'|'.join(parts)})"


MONTH = one_of(NAMES)
BEGINNINGS = one_of(name[:3] for name in NAMES)
