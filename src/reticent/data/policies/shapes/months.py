"""Names of months in two dozen languages, in the cases that dates put them in (Unicode CLDR), as one expression.

English is left to its own rules: these know abbreviations, and the order of "May 3, 2021".
"""

from reticent.data.policies.shapes.stretches import one_of

_LISTED = """
Januar Februar März April Mai Juni Juli August September Oktober November Dezember
Jänner Feber März April Mai Juni Juli August September Oktober November Dezember
janvier février mars avril mai juin juillet août septembre octobre novembre décembre
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
enero febrero marzo abril mayo junio julio agosto setiembre octubre noviembre diciembre
gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
januari februari maart april mei juni juli augustus september oktober november december
janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia
styczeń luty marzec kwiecień maj czerwiec lipiec sierpień wrzesień październik listopad grudzień
januari februari mars april maj juni juli augusti september oktober november december
januar februar marts april maj juni juli august september oktober november december
januar februar mars april mai juni juli august september oktober november desember
tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta syyskuuta lokakuuta marraskuuta joulukuuta
ledna února března dubna května června července srpna září října listopadu prosince
leden únor březen duben květen červen červenec srpen září říjen listopad prosinec
januára februára marca apríla mája júna júla augusta septembra októbra novembra decembra
ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie noiembrie decembrie
január február március április május június július augusztus szeptember október november december
Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık
siječnja veljače ožujka travnja svibnja lipnja srpnja kolovoza rujna listopada studenoga prosinca
января февраля марта апреля мая июня июля августа сентября октября ноября декабря
январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь
січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня
януари февруари март април май юни юли август септември октомври ноември декември
Ιανουαρίου Φεβρουαρίου Μαρτίου Απριλίου Μαΐου Ιουνίου Ιουλίου Αυγούστου Σεπτεμβρίου Οκτωβρίου Νοεμβρίου Δεκεμβρίου
gener febrer març abril maig juny juliol agost setembre octubre novembre desembre
"""  # noqa: E501 (a language a line)
YEARS = tuple(
    tuple(line.split()) for line in _LISTED.strip().split("\n")
)  # the months of a year, for each language
# As they are written in small letters and with a capital.
NAMES = frozenset(form for year in YEARS for name in year for form in (name.lower(), name[0].upper() + name[1:]))

MONTH = one_of(NAMES)
BEGINNINGS = one_of(name[:3] for name in NAMES)
