"""From a request in OpenAI's form to the tokens that a model continues."""
