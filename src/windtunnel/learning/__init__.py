"""Learning on a simulated clock: algorithms train a small task for real while the engine times a large one.

What is learned and what is timed are two things. A *task* gives losses and gradients of a small problem to N virtual
workers; an *algorithm* steps them and says which messages it sends; a *target* (model, cluster, links) says how many
bytes each message has there, when steps end and when messages arrive.

Where the order of events does not depend on the clock (*lock-step*), loss and time factor: a curve is learned once and
timed on any target. Where it does (asynchronous servers, backup workers, failures), completions of the clock drive the
algorithm (*arrivals*).
"""
