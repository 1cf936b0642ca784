"""What customers and the support desk of a shop say: intents and phrasings, as data.

The public half hears the first two thirds of every list (`offered`); the private half hears all of it. So a public
model knows how such dialogues go, and private training still has something to teach that is nobody's secret.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

_PUBLIC_SHARE: Final = 2 / 3

Phrase = TypeVar("Phrase")


def offered(phrases: Sequence[Phrase], *, private: bool) -> Sequence[Phrase]:
    """All phrases for the private half, the first two thirds for the public one."""
    return phrases if private else phrases[: math.ceil(_PUBLIC_SHARE * len(phrases))]


@dataclass(frozen=True, slots=True)
class Intent:
    """What a customer wants: how it is said, what the desk asks for after the name, and how it is settled."""

    openings: tuple[str, ...]
    checks: tuple[str, ...]
    answers: tuple[str, ...]


GREETINGS: Final = (
    "Hello, this is the support desk. How can I help?",
    "Welcome to the shop. What can I do for you today?",
    "Good morning, you have reached customer support. What do you need?",
    "Hi there, thanks for contacting us. How may I help you?",
    "Hello and welcome. What brings you here today?",
    "Good afternoon, support desk here. What is the matter?",
    "Good evening, you are talking to the shop. What can we do for you?",
    "Hi, I am the shop's assistant. Tell me what happened.",
    "Hello, we are glad you wrote. What is it about?",
)
HELLOS: Final = (
    "Hi.",
    "Hello.",
    "Good day.",
    "Hey there.",
    "Hello, I hope you can help me.",
    "Hi, a quick question.",
    "Good morning.",
    "Hey, I need some help.",
    "Hello, thanks for answering so fast.",
)
ASK_NAME: Final = (
    "May I have your full name, please?",
    "Who am I speaking with?",
    "Sure. Could you tell me your name first?",
    "I can look into that. What is your full name?",
    "Let me check. Under which name was the order placed?",
    "Of course. Please tell me your first and last name.",
    "I am sorry to hear that. Your name, please?",
    "Happy to help. Whose account is it?",
    "Let us see. What name is on the account?",
)
GIVE_NAME: Final = (
    "{name}.",
    "My name is {name}.",
    "I am {name}.",
    "It should be under {name}.",
    "Sure, it is {name}.",
    "This is {name} speaking.",
    "Yes, {name}.",
    "The account belongs to {name}.",
    "You will find me as {name}.",
)
ASK: Final = {
    "phone": (
        "Which phone number is on the account?",
        "Please confirm your phone number.",
        "And the phone number we can reach you at?",
        "Thank you. What is your phone number?",
        "Could you also give me your telephone number?",
        "For safety, please tell me the phone number you gave us.",
    ),
    "email": (
        "Which e-mail address do you use with us?",
        "Please confirm your e-mail address.",
        "And your e-mail, please?",
        "What is the e-mail address on the account?",
        "Could you spell out your e-mail address?",
        "To be sure it is you: which e-mail did you register?",
    ),
    "order": (
        "What is the order number?",
        "Could you give me the order number?",
        "Please tell me the number of your order.",
        "Do you have the order number at hand?",
        "The order number is in the confirmation we sent. What is it?",
        "Which order is it, please?",
    ),
    "address": (
        "Which address did we ship to?",
        "Please confirm the shipping address.",
        "And the delivery address, please?",
        "Where should the parcel have gone?",
        "What address do we have for you?",
        "Could you repeat the full address for me?",
    ),
}
GIVE: Final = {
    "phone": (
        "{phone}.",
        "It is {phone}.",
        "You can reach me at {phone}.",
        "My number is {phone}.",
        "Call me on {phone} if you need to.",
        "The phone number should be {phone}.",
    ),
    "email": (
        "{email}",
        "It is {email}",
        "I use {email} for everything.",
        "Please write to {email} then.",
        "That would be {email}",
        "My address there is {email}",
    ),
    "order": (
        "{order}.",
        "The order number is {order}.",
        "It says {order} here.",
        "One moment. It is {order}.",
        "Number {order}, I think.",
        "I wrote it down: {order}.",
    ),
    "address": (
        "{address}.",
        "I live at {address}.",
        "It should go to {address}.",
        "The address is {address}.",
        "We are at {address}.",
        "Ship it to {address}, please.",
    ),
}
ITEMS: Final = (
    "chair", "floor lamp", "pot", "lipstick", "mobile phone", "backpack", "kettle", "winter coat",
    "garden hose", "keyboard", "bookshelf", "pair of boots", "coffee grinder", "tent", "bicycle pump",
    "set of knives", "rug", "pillow", "radio", "board game", "watch", "headset", "blender", "toy train", "desk",
    "camera bag", "rain jacket", "teapot", "tool box", "mirror", "scarf", "bread maker", "guitar stand",
    "fish tank", "yoga mat", "alarm clock",
)  # fmt: skip
WHEN: Final = (
    "yesterday", "two days ago", "last week", "on Monday", "ten days ago", "last month", "on Friday",
    "a while ago", "three weeks ago",
)  # fmt: skip
SOON: Final = (
    "tomorrow", "within three days", "by Friday", "in five to seven days", "this week", "next Tuesday",
    "within ten days", "before the weekend", "in two weeks",
)  # fmt: skip
INTENTS: Final = (
    Intent(
        (
            "Where is my parcel? I ordered a {item} {when}.",
            "I ordered a {item} {when} but I cannot track it.",
            "Could you help me track a {item}?",
            "My {item} was shipped {when} and has not arrived.",
        ),
        ("phone", "order", "address", "email"),
        (
            "Your tracking number is {tracking}. The {item} should arrive {soon}.",
            "I found it. You can follow the parcel with {tracking}.",
            "It left our store {when}. Please use the tracking number {tracking}.",
            "The carrier has it under {tracking} and will deliver it {soon}.",
        ),
    ),
    Intent(
        (
            "I placed an order {when} and do not know if it has been shipped.",
            "Has my {item} been sent yet?",
            "When will you ship the {item} I bought {when}?",
            "The {item} is still marked as waiting. Why is that?",
        ),
        ("order", "phone", "email"),
        (
            "It was packed {when} and leaves {soon}. The tracking number will be {tracking}.",
            "Yes, it is on its way with number {tracking}.",
            "Not yet, but we will ship it {soon} and write to {email} at once.",
            "The {item} was sold out. It will be sent {soon} to {address}.",
        ),
    ),
    Intent(
        (
            "I have moved and need to change my delivery address.",
            "Please send the {item} to another address.",
            "I gave you the wrong address for my {item}.",
            "We live somewhere else now. Can you update that?",
        ),
        ("address", "phone", "email"),
        (
            "Done. From now on we ship to {new_address}, as you wrote in your note.",
            "I see your message: the new address is {new_address}. It is saved.",
            "The parcel {tracking} will now go to {new_address}.",
            "Your account now shows {new_address}. We will also confirm it to {email}",
        ),
    ),
    Intent(
        (
            "I would like to cancel my order.",
            "Please cancel the {item}, I found a cheaper one.",
            "I ordered a {item} by mistake {when}.",
            "Can I still stop the order for the {item}?",
        ),
        ("order", "email", "phone"),
        (
            "The order {order} is cancelled. You will get your money back {soon}.",
            "I have stopped it. A note goes to {email}",
            "It was already sent with {tracking}. Please refuse the parcel at the door.",
            "Order {order} can be cancelled until tomorrow, so I did it now.",
        ),
    ),
    Intent(
        (
            "I want to return a {item}.",
            "The {item} does not fit. How do I send it back?",
            "How can I return the {item} I got {when}?",
            "I do not like the {item}. May I give it back?",
        ),
        ("order", "address", "phone"),
        (
            "A driver will pick it up at {address} {soon}.",
            "Please put the label {tracking} on the box and take it to the post office.",
            "You have thirty days. I sent a return label to {email}",
            "Of course. Write {order} on the parcel and hand it in {soon}.",
        ),
    ),
    Intent(
        (
            "I am still waiting for my refund.",
            "I sent the {item} back {when} and got no money.",
            "When do I get my refund for the {item}?",
            "You promised to pay me back {when}.",
        ),
        ("order", "email", "address"),
        (
            "The refund for {order} was booked {when} and arrives {soon}.",
            "We have not received the parcel {tracking} yet.",
            "It is paid. We sent the receipt to {email}",
            "I am sorry. The amount will be on your card {soon}.",
        ),
    ),
    Intent(
        (
            "The {item} arrived broken.",
            "My {item} has a scratch and one part is missing.",
            "I opened the box and the {item} was damaged.",
            "The {item} stopped working {when}.",
        ),
        ("order", "phone", "address"),
        (
            "We will send a new one to {address}. Its number is {tracking}.",
            "I am sorry. A technician will call you at {phone} {soon}.",
            "Please keep the box. The carrier comes to {address} {soon}.",
            "You can choose a refund for {order} or a new {item}.",
        ),
    ),
    Intent(
        (
            "I got a {item} that I never ordered.",
            "You sent me the wrong thing, I asked for a {item}.",
            "There was a {item} in my parcel instead.",
            "This is not my {item} at all.",
        ),
        ("order", "phone", "email"),
        (
            "That parcel was {tracking} and belongs to someone else. We will collect it {soon}.",
            "The right one leaves {soon}. You may keep the other.",
            "Order {order} was mixed up in our store. A new parcel is on its way to {address}.",
            "Thank you for being honest. We will call {phone} and arrange it.",
        ),
    ),
    Intent(
        (
            "I need the invoice for a {item}.",
            "Could you send me a receipt for my taxes?",
            "I lost the bill of the order I made {when}.",
        ),
        ("email", "order"),
        (
            "The invoice for {order} was sent to {email}",
            "I have mailed a copy to {address}.",
            "It is in your account under {order}, and a copy goes to {email}",
        ),
    ),
    Intent(
        (
            "My phone number has changed.",
            "Please delete my old number and store the new one.",
            "You keep calling a number I no longer have.",
        ),
        ("email", "phone", "address"),
        (
            "Thanks, {new_phone} is now saved for {name}.",
            "From now on we will use {new_phone} and nothing else.",
            "I replaced it by {new_phone} and removed the other one.",
        ),
    ),
    Intent(
        (
            "I want to buy a {item} but the page does not take my card.",
            "Can I pay for the {item} by bank transfer?",
            "Why was I charged twice for the {item}?",
        ),
        ("phone", "email"),
        (
            "I have made the order for you, its number is {order}. We ship it {soon}.",
            "The second charge belongs to {order} and will be returned {soon}.",
            "Yes. Name {order} as the purpose and we will confirm to {email}",
        ),
    ),
    Intent(
        (
            "Is there a warranty on the {item}?",
            "Who repairs a {item} after a year?",
            "The guarantee of my {item} runs out {soon}. Can I extend it?",
        ),
        ("order", "address"),
        (
            "It is covered for two years from {order}. Send it in with the label {tracking}.",
            "Our workshop does. They will write to {name} at {address} {soon}.",
            "I added one more year to {order} without cost.",
        ),
    ),
)
MORE: Final = (
    ("And when will it be here?", "It should be there {soon}."),
    ("Do I have to sign for it?", "Yes, somebody at {address} has to sign."),
    ("Which phone number will the driver call?", "He will call {phone}."),
    ("Can you write that down for me?", "Of course, I have sent it all to {email}"),
    ("Does it cost anything?", "No, it is free of charge."),
    ("What was the order number again?", "It is {order}."),
    ("Is the {item} still in stock?", "Yes, we have a few left."),
    ("Could you ring me when it is done?", "We will ring {phone} {soon}."),
    ("Do you have my name right?", "Yes, {name} is what I see here."),
)
ANYTHING_ELSE: Final = (
    "Is there anything else?",
    "Can I help you with anything else?",
    "What else can I do?",
    "Does that answer your question?",
    "Are you happy with that?",
    "Do you need anything more?",
)
FAREWELLS: Final = (
    "No, that is all. Thank you.",
    "That is it, thanks a lot.",
    "No more questions. Bye.",
    "All good, have a nice day.",
    "Great, thanks for your help.",
    "I am fine now. Goodbye.",
)
CLOSINGS: Final = (
    "You are welcome. Goodbye.",
    "Have a nice day.",
    "Thank you for your patience. Bye.",
    "It was a pleasure. Take care.",
    "Thank you, {name}. Until next time.",
    "Goodbye, and enjoy the {item}.",
)
