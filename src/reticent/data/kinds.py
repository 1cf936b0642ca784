"""One name for each kind of personal data, whatever a tagger or a label file calls it.

Scans, scrubbing, audits and measurements compare kinds by these names, so that a label GPE and a finding LOC are
the same kind. Kinds that single nobody out (`NOT_PERSONAL`: counts, ordinals, laws, nationalities and the like) are
left out of what other people's taggers find, unless they are asked for by name.
"""

from functools import lru_cache
from typing import Final

_SAME: Final = {
    "PERSON": "PER NAME FIRST_NAME LAST_NAME SURNAME GIVEN_NAME FULL_NAME PERSON_NAME USERNAME_PERSON",
    "LOC": "GPE LOCATION CITY PLACE FAC FACILITY COUNTRY STATE",
    "ADDRESS": "STREET_ADDRESS STREET POSTAL_ADDRESS",
    "ORG": "ORGANIZATION ORGANISATION COMPANY CORPORATION",
    "DATE": "DATETIME DATE_TIME TIME DOB DATE_OF_BIRTH BIRTHDAY",
    "EMAIL": "EMAIL_ADDRESS E_MAIL",
    "PHONE": "PHONE_NUMBER TELEPHONE TELEPHONE_NUMBER TELEPHONENUM MOBILE",
    "CARD": "CREDIT_CARD CREDIT_CARD_NUMBER CREDITCARDNUMBER",
    "IBAN": "IBAN_CODE",
    "IP": "IP_ADDRESS",
    "SSN": "US_SSN SOCIALNUM SOCIAL_SECURITY_NUMBER",
    "URL": "DOMAIN_NAME LINK",
    "ZIP": "ZIP_CODE ZIPCODE POSTCODE POSTAL_CODE",
    "AMOUNT": "MONEY",
    "ORIGIN": "NRP DEM",
}
_CANONICAL: Final = {other: kind for kind, others in _SAME.items() for other in others.split()}
_NOT_PERSONAL_LIST = """
CARDINAL ORDINAL LAW NORP PERCENT QUANTITY LANGUAGE WORK_OF_ART EVENT PRODUCT MISC
"""
NOT_PERSONAL: Final = frozenset(_NOT_PERSONAL_LIST.split())
# Says only that something stands out: any other kind says more.
VAGUE: Final = frozenset({"CAPITALS"})
# Words of address that stand before a name and are no part of it.
_TITLES_LIST = """
mr mrs ms miss mister dr prof professor sir madam lady lord judge mx jr sr herr frau hr fr monsieur madame mme
mlle m señor señora sra don doña signor signora dott ing dhr mevr pan pani г госпожа господин
"""
TITLES: Final = frozenset(_TITLES_LIST.split())


@lru_cache(maxsize=4096)
def canonical(kind: str) -> str:
    """The one name of `kind`: LOC for GPE, DATE for DATETIME; a kind that is in no list keeps its own."""
    upper = kind.upper().replace("-", "_").replace(" ", "_")
    return _CANONICAL.get(upper, upper)
