"""One module a verb: parse, call the journey, print. Heavy imports stand inside the verbs."""
