"""How a court tells the facts of a case: subjects, steps and phrasings, as data.

Slots that are secrets: {name}, {lawyer}, {agent}, {other} (people), {application}, {home}, {town} (places),
{date} (a new, later day at each use), {birth}. The rest are words. The public half hears the first two thirds of
every list.
"""

from typing import Final

STATES: Final = (
    ("the Republic of Austria", "Austrian"),
    ("the Kingdom of Norway", "Norwegian"),
    ("the Republic of Poland", "Polish"),
    ("the Italian Republic", "Italian"),
    ("Ukraine", "Ukrainian"),
    ("Romania", "Romanian"),
    ("the Republic of Finland", "Finnish"),
    ("the Kingdom of Spain", "Spanish"),
    ("the Portuguese Republic", "Portuguese"),
    ("Hungary", "Hungarian"),
    ("the Czech Republic", "Czech"),
    ("the Kingdom of Denmark", "Danish"),
)
OCCUPATIONS: Final = (
    "teacher",
    "farmer",
    "retired engineer",
    "journalist",
    "nurse",
    "lorry driver",
    "shop owner",
    "bank clerk",
    "police officer",
    "student",
    "carpenter",
    "civil servant",
)
SUMS: Final = ("1,200", "3,500", "800", "12,000", "6,400", "2,750", "9,000", "450", "20,000")
ORIGINS: Final = (
    (
        "The case originated in an application (no. {application}) against {state} lodged with the Court "
        "by a {nation} "
        "national, {title} {name} (the applicant), on {date}."
    ),
    (
        "An application (no. {application}) against {state} was lodged on {date} by {title} {name} (the "
        "applicant), a "
        "{nation} national."
    ),
    (
        "On {date} the Court received application no. {application} against {state}. It was brought by "
        "the applicant, "
        "{title} {name}, who is a {nation} national."
    ),
    (
        "This case, application no. {application} against {state}, was brought by a {nation} "
        "{occupation}, {title} {name} "
        "(the applicant), on {date}."
    ),
)
COUNSEL: Final = (
    (
        "The applicant was represented by {lawyer}, a lawyer practising in {town}. The {nation} "
        "Government (the Government) "
        "were represented by their Agent, {agent}."
    ),
    (
        "{lawyer}, a lawyer in {town}, appeared for the applicant. The Government were represented by "
        "{agent}, their Agent."
    ),
    (
        "The applicant, who had been granted legal aid, was represented by {lawyer}. The Agent of the "
        "{nation} Government "
        "was {agent}."
    ),
    (
        "Before the Court the applicant was assisted by {lawyer} of {town}, and the Government by "
        "{agent} of the Ministry of "
        "Justice."
    ),
)
NOTICES: Final = (
    "On {date} the application was communicated to the Government.",
    "On {date} the President of the Section decided to give notice of the application to the Government.",
    "By a decision of {date} the Court declared the application admissible.",
    "On {date} the Government were invited to submit written observations.",
)
PERSONS: Final = (
    "The applicant was born on {birth} and lives in {home}.",
    "The applicant, a {occupation}, was born on {birth} and lives in {home}.",
    "{title} {name} was born on {birth}. {He} works as a {occupation} in {home}.",
    "The applicant is a {occupation} from {home}, where {he} was born on {birth}.",
)
# Each subject: steps in order of time, each step in several phrasings.
SUBJECTS: Final = (
    (
        (
            (
                "On {date} the applicant brought civil proceedings against {other} in the {home} District Court, "
                "claiming "
                "{sum} euros."
            ),
            "On {date} {he} sued {other} for damages before the District Court of {home}.",
            "The applicant lodged a claim for {sum} euros with the {home} District Court on {date}.",
        ),
        (
            "A first hearing was held on {date}, but {other} did not appear.",
            "The hearing of {date} was adjourned because the expert had not been summoned.",
            "On {date} the court appointed an expert, who took more than a year to submit the report.",
        ),
        (
            "The {town} Regional Court set that judgment aside on {date} and sent the case back.",
            "On {date} the judge was replaced and the proceedings started again.",
            "By a judgment of {date} the court allowed the claim in part.",
        ),
    ),
    (
        (
            "On {date} the applicant was arrested in {town} on suspicion of robbery.",
            "The police arrested {him} in {town} on {date} together with {other}.",
            "On {date} {he} was taken into custody after a search of {his} flat in {home}.",
        ),
        (
            "On {date} the {home} District Court ordered {his} detention for two months.",
            "The court extended the detention on {date}, since the charges were serious.",
            "{He} appealed on {date}, arguing that there was no risk of flight.",
        ),
        (
            "The applicant was released on {date} on bail of {sum} euros.",
            "On {date} the {town} Regional Court convicted {him} and imposed a prison term.",
            "The charges were dropped on {date}, but no compensation was paid.",
        ),
    ),
    (
        (
            "The applicant owned a plot of land near {home}, which {he} had inherited from {other}.",
            "{His} family had owned a house in {town} since {date}.",
            "On {date} the applicant bought a field near {town} for {sum} euros.",
        ),
        (
            "On {date} the mayor of {home} informed {him} that a road would be built across the land.",
            "The land was expropriated on {date} for public use.",
            "By an order of {date} the authorities took possession of the property.",
        ),
        (
            "The compensation of {sum} euros was fixed on {date} without hearing {him}.",
            "On {date} the Court of Appeal in {town} found the amount sufficient.",
            "{He} asked for a new valuation on {date}. It was refused.",
        ),
    ),
    (
        (
            "The applicant had worked for the town of {home} since {date}.",
            "On {date} {he} was hired by a company in {town}, whose director was {other}.",
            "From {date} {he} worked under the supervision of {other} at the hospital of {home}.",
        ),
        (
            "On {date} {he} was dismissed without notice.",
            "{other} told {him} on {date} that {his} post had been abolished.",
            "The dismissal of {date} referred to an article {he} had published.",
        ),
        (
            "The Labour Court in {town} dismissed {his} action on {date}.",
            "On {date} the Supreme Court rejected {his} appeal on points of law.",
            "{He} was awarded {sum} euros on {date}, but was not reinstated.",
        ),
    ),
    (
        (
            "On {date} the applicant published an article about {other}, then mayor of {home}.",
            "In a leaflet of {date} {he} accused {other} of taking bribes.",
            "A newspaper in {town} printed {his} letter on {date}.",
        ),
        (
            "{other} lodged a complaint for defamation on {date}.",
            "Criminal proceedings were opened against {him} on {date} in {home}.",
            "On {date} {he} was ordered to reveal {his} source and refused.",
        ),
        (
            "On {date} the {town} Court fined {him} {sum} euros.",
            "The Court of Appeal upheld the conviction on {date}.",
            "The Constitutional Court declared {his} complaint inadmissible on {date}.",
        ),
    ),
    (
        (
            "On {date} the applicant married {other}. They had a daughter and separated two years later.",
            "The applicant and {other} lived together in {home} until {date}.",
            "A child was born to the applicant and {other} on {date}.",
        ),
        (
            "On {date} the {home} Family Court granted custody to {other}.",
            "The youth office of {town} placed the child with a foster family on {date}.",
            "By a decision of {date} {he} was allowed to see the child twice a month.",
        ),
        (
            "{He} has not seen the child since {date}.",
            "On {date} {his} request to enforce the visits was refused.",
            "The Court of Appeal in {town} confirmed that decision on {date}.",
        ),
    ),
    (
        (
            "On {date} two officers stopped the applicant in a street of {town}.",
            "The applicant stated that on {date} officer {other} had beaten {him} at the police station of {home}.",
            "During a demonstration in {home} on {date} {he} was injured.",
        ),
        (
            "A doctor in {town} examined {him} on {date} and noted bruises on both arms.",
            "The medical report of {date} mentioned a broken rib.",
            "On {date} {he} was treated in the hospital of {home}.",
        ),
        (
            "On {date} the prosecutor decided not to open an investigation.",
            "The investigation against {other} was closed on {date} for lack of evidence.",
            "{other} was acquitted by the {town} Regional Court on {date}.",
        ),
    ),
    (
        (
            "By a judgment of {date} the {home} District Court ordered the State to pay {him} {sum} euros.",
            "On {date} the court in {town} ordered {other} to vacate the applicant's flat.",
            "The applicant won {his} case against the town of {home} on {date}.",
        ),
        (
            "The judgment became final on {date}.",
            "On {date} {he} asked the bailiff of {town} to enforce it.",
            "A bailiff, {other}, opened enforcement proceedings on {date}.",
        ),
        (
            "The judgment has not been enforced to date.",
            "Only {sum} euros were paid, on {date}.",
            "On {date} the proceedings were closed because the debtor had no assets.",
        ),
    ),
    (
        (
            "The applicant receives a disability pension from the insurance office in {home}.",
            "On {date} {he} applied for an old-age pension in {town}.",
            "A doctor found on {date} that {he} could no longer work as a {occupation}.",
        ),
        (
            "On {date} the office reduced the pension by {sum} euros a year.",
            "{other}, an official of the office, refused the request on {date}.",
            "The payments were stopped on {date} without a reasoned decision.",
        ),
        (
            "{His} action was dismissed by the Social Court in {town} on {date}.",
            "On {date} the Supreme Court refused leave to appeal.",
            "A new report of {date} came to the opposite conclusion, but the case was not reopened.",
        ),
    ),
)
ENDINGS: Final = (
    "The applicant complained that the proceedings had been unfair.",
    "{He} alleged that the length of the proceedings had been excessive.",
    "Relying on Article 8 of the Convention, {he} complained about these decisions.",
    "The applicant complained that {he} had had no effective remedy.",
    "The Government contested that argument.",
    "No further appeal was open to {him}.",
)
