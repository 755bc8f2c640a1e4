"""The live loop: samples come in over HTTP, decisions go out at once, and people answer the few queries on a page.

    osamd init STATE --source sensor.csv --label state --budget 5%
    osamd serve --dir STATE

Every sample, draw, decision, label and expiry is an event, written to one log before its answer leaves (`log`). The
learner is a fold of that log (`engine`), so a service that is killed starts again where it was, bit for bit. `api` is
the way in over HTTP, `pages` are for people, `osamd.client` is for programs.
"""
