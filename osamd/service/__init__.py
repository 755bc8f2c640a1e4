"""The live loop: samples come in over HTTP, decisions go out at once, and people answer the few queries on a page.

    osamd init STATE --source sensor.csv --label state --budget 5%
    osamd serve --dir STATE

Every sample, draw, decision, label and expiry is an event, written to one log before its response is sent (`log`). The
learner is computed from that log (`fold`, `engine`), so a service that is killed continues where it stopped, bit for
bit. `api` is the HTTP interface, `pages` are for people, and `osamd.client` is for programs.
"""
