"""The web application: routes, answers, connections and what guards them."""
