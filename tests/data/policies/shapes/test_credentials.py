"""Secrets of machines in text: a list to build by, a list that was looked at once, and text that holds none."""

import random

import pytest

from reticent.data.policies.shapes.credentials import Credentials, entropy, is_random, is_wallet
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.runs.policies.by_name import union_policy

SOURCE = random.Random(7)
HEX, DIGITS = "0123456789abcdef", "0123456789"
MIXED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def drawn(alphabet: str, length: int) -> str:
    return "".join(SOURCE.choice(alphabet) for _ in range(length))


BODY = "\n".join(drawn(MIXED, 64) for _ in range(4))
BUILT_BY = [
    ("AWS_ACCESS_KEY_ID=%s", "AKIA" + drawn(MIXED.upper(), 16)),
    ("use %s for the repo", "ghp_" + drawn(MIXED, 36)),
    ("bot %s", "xoxb-" + drawn(DIGITS, 12) + "-" + drawn(MIXED, 24)),
    ("my key is %s ok?", "sk-proj-" + drawn(MIXED, 40)),
    ("stripe %s", "sk_live_" + drawn(MIXED, 24)),
    ("maps %s", "AIza" + drawn(MIXED, 35)),
    ("jwt %s", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + drawn(MIXED, 43)),
    ("my password is %s", "hunter2"),
    ("Password: %s", "Tr0ub4dor&3"),
    ("pwd=%s;", "s3cr3t!Pass"),
    ('"api_key": "%s"', drawn(HEX, 32)),
    ("db at %s", "postgres://admin:pa55w0rd@db.example.com:5432/prod"),
    ("see %s", "https://bob:letmein@example.com/x"),
    ("pay to %s", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
    ("eth %s", "0x" + drawn(HEX, 40)),
    ("btc %s", "bc1q" + drawn("023456789acdefghjklmnpqrstuvwxyz", 38)),
    ("%s", f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----"),
    ("follow %s!", "@jane_doe99"),
    ("commit %s", drawn(HEX, 40)),
    ("session %s", drawn(MIXED, 32)),
    ("id %s", "3f2504e0-4f89-11d3-9a0c-0305e82c3301"),
    ("mac %s", "00:1A:2B:3C:4D:5E"),
    ("Authorization: Bearer %s", drawn(MIXED, 40)),
    ("Das Passwort lautet %s", "Sommer2024!"),
    ("npm %s", "npm_" + drawn(MIXED, 36)),
    ("hf %s", "hf_" + drawn(MIXED, 34)),
    ("sg %s", "SG." + drawn(MIXED, 22) + "." + drawn(MIXED, 43)),
    ("AccountKey=%s", drawn(MIXED, 86) + "=="),
    ("secret_key = '%s'", drawn(MIXED + "-_", 50)),
    ("mysql %s", "mysql://root:toor@127.0.0.1/x"),
    ("root pw: %s", "letmein!"),
    ("pass=%s", "qwerty"),
    ("DB_PASS: %s", "7hG!kd92"),
    ("<password>%s</password>", "Winter2024!"),
    ('with passphrase "%s"', "blue-horse-7-staple"),
    ("le mot de passe du serveur est %s", "Azerty12!"),
    ("senha do wifi: %s", "familia2020"),
    ("密码是%s，请保密", "abc12345"),
    ("パスワードは%sです", "sakura99"),
    ("curl -u %s https://ci.example.org", "deploy:Xk29sLq8"),
    ("my account is %s", "@lena.fotografiert"),
]
LOOKED_AT_ONCE = [
    ("export GITLAB_TOKEN=%s", "glpat-" + drawn(MIXED, 20)),
    ("the pin for the door, passcode: %s", "483920"),
    ("login with user bob and password '%s' please", "correct-horse-battery"),
    ("client_secret=%s&x=1", drawn(MIXED, 28)),
    ("redis %s", "redis://:p4ss@cache.internal:6379/0"),
    ("mongo %s,", "mongodb+srv://u:pw123@cluster0.example.net/test"),
    ("amqp at %s", "amqps://svc:k3y@mq.example.org/vh"),
    ("my passphrase is: %s", "Blue7Horse"),
    ("contraseña: %s", "Gato1234"),
    ("le mot de passe est %s", "Soleil75!"),
    ("twilio %s", "AC" + drawn(HEX, 32)),
    ("ssh %s me@host", "ssh-ed25519 AAAA" + drawn(MIXED, 64)),
    ("send it to %s thanks", "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy"),
    ("monero %s", "4" + "8" + drawn(MIXED.translate({ord(c): "x" for c in "0OIl"}), 93)),
    ("tg %s", drawn(DIGITS, 9) + ":" + drawn(MIXED, 35)),
    ("hook %s", "https://hooks.slack.com/services/T00000000/B00000000/" + drawn(MIXED, 24)),
    ("auth_token: %s", drawn(MIXED, 24)),
    ("Basic %s", "dXNlcjpwYXNzd29yZDEyMw=="),
    ("(%s)", "@realname_1"),
    ("sha256 %s", drawn(HEX, 64)),
    ("google %s", "GOCSPX-" + drawn(MIXED, 28)),
    ("pat %s", "github_pat_" + drawn(MIXED, 60)),
    ("%s", f"-----BEGIN OPENSSH PRIVATE KEY-----\n{BODY}\n-----END OPENSSH PRIVATE KEY-----"),
    ("device 0%s", "0-1B-44-11-3A-B7"),
    ("shop %s", "shpat_" + drawn(HEX, 32)),
    ("do %s", "dop_v1_" + drawn(HEX, 64)),
    ("Server=db;User=sa;Password=%s;", "Adm1n#2020"),
    ("key-id %s", "ASIA" + drawn(MIXED.upper(), 16)),
    ("I set my wifi password to %s yesterday", "qwerty99"),
    ("Kennwort: %s", "Apfelbaum77"),
]
HARMLESS = [
    "The password is wrong.", "Your token: please enter it", "My secret is safe with you", "on 2024-01-02",
    "international-cooperation-and-development", "The password was changed", "see Section 3.2.1",
    "COVID-19-related", "supercalifragilisticexpialidocious", "the key is under the mat", "version 2.10.3-beta",
    "Pass: students who", "password: ********", "api_key=${API_KEY}", "password: {password}", "secret: [REDACTED]",
    "token: Optional[str] = None", "token = tokenizer.next()", "password = None", "compass: north",
    "密码是错误的。", '@app.route("/x")', "state-of-the-art 5G", "rec.sport.hockey group", "meet @ noon",
    "1234567890 items",
]  # fmt: skip


def left_of(policy, template: str, value: str) -> str:
    text = template % value
    (spans,) = policy.find([text])
    start = text.index(value)
    hidden = {n for span in spans for n in range(span.start, span.end)}
    return "".join(text[n] for n in range(start, start + len(value)) if n not in hidden)


@pytest.mark.parametrize(("template", "value"), BUILT_BY, ids=[template for template, _ in BUILT_BY])
def test_every_secret_of_the_list_is_found_whole(template, value):
    assert left_of(Credentials(), template, value) == ""


def test_nearly_all_secrets_of_the_list_that_was_looked_at_once_are_found():
    found = [not left_of(Credentials(), template, value) for template, value in LOOKED_AT_ONCE]
    assert sum(found) >= 27


@pytest.mark.parametrize(
    "address",
    [
        "https://www.facebook.com/jane.doe.7",
        "https://github.com/janedoe",
        "linkedin.com/in/jane-doe-123",
        "https://reddit.com/u/throwaway",
        "www.janedoe.com",
        "https://blog.janedoe.de/",
        "https://zoom.us/j/98765432100?pwd=QWxhZGRpbjpvcGVu",
        "https://docs.google.com/document/d/1A2b3C4d5E6f7G8h9I0jK/edit",
        "https://shop.example/reset?email=jane@example.org",
    ],
)
def test_addresses_of_sites_and_accounts_are_found_by_default(address):
    assert left_of(union_policy(), "see %s for more", address) == ""


@pytest.mark.parametrize(
    "link",
    ["https://t.co/AbLFwzMary", "https://www.nytimes.com/us/politics.html", "example.com/about/the/terms"],
)
def test_links_to_pages_are_left_by_default_and_found_on_request(link):
    assert union_policy().find([f"see {link} for more"]) == [()]
    assert left_of(Credentials(), "see %s for more", link) == ""


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_text_holds_no_secret(text):
    assert Credentials().find([text]) == [()]


def test_random_words_are_told_from_words():
    assert is_random("9f86d081884c7d659a2feaa0c55ad015")
    assert not is_random("internationalisation2024")
    assert entropy("aaaa") == 0.0
    assert entropy("abcd") == 2.0


def test_a_wallet_with_a_wrong_checksum_is_none():
    assert is_wallet("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa")
    assert not is_wallet("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb")


PHONES = """
+1 415 555 2671|+1 (415) 555-2671|+1-415-555-2671|(415) 555-2671|415-555-2671|415.555.2671|4155552671|+14155552671
+44 20 7946 0958|+44 (0)20 7946 0958|020 7946 0958|+49 30 12345678|030/12345678|030 12345678|+49 (0)30 1234567
0171-1234567|+33 1 42 68 53 00|01 42 68 53 00|+34 612 34 56 78|+81 3-1234-5678|+86 138 0013 8000|+91 98765 43210
1-800-555-0199|+1 415 555 2671 ext. 12|(030) 123 456 78
"""


@pytest.mark.parametrize("number", PHONES.strip().replace("\n", "|").split("|"))
def test_phones_leave_nothing(number):
    text = f"Please call me at {number}, thanks."
    (spans,) = PatternPolicy().find([text])
    assert [(text[span.start : span.end], span.kind) for span in spans] == [(number, "PHONE")]


def test_digits_of_full_width_are_digits():
    text = "電話は０３－１２３４－５６７８です"
    assert [(text[s.start : s.end], s.kind) for s in union_policy().find([text])[0]] == [
        ("０３－１２３４－５６７８", "PHONE")
    ]


@pytest.mark.parametrize("address", ["10.0.0.1/24", "10.0.0.1:8080", "192.168.0.1"])
def test_networks_and_ports_belong_to_an_address(address):
    (spans,) = PatternPolicy().find([f"host {address} is down"])
    assert [(span.start, span.end, span.kind) for span in spans] == [(5, 5 + len(address), "IP")]


@pytest.mark.parametrize(
    "name", ["Angela Mer\u00adkel", "Angela Mer\u200bkel", "Ange\u200dla Merkel", "Jose\u0301 Garci\u0301a"]
)
def test_invisible_characters_hide_no_name(name):
    text = f"Yesterday {name} called from Berlin."
    (spans,) = union_policy().find([text])
    assert any(span.start <= 10 and span.end >= 10 + len(name) for span in spans)
