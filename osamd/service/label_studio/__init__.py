"""A bridge to Label Studio: queries become tasks there, with the model's prediction, and annotations become answers.

    osamd label-studio --url http://127.0.0.1:8000 --label-studio http://127.0.0.1:8080

The bridge keeps no state of its own. The service knows which queries are pending, and every task carries the key of its
query, so each pass compares the two and does what is missing (`bridge`). Whatever is killed, and whenever, a pending
query gets one task, and its first annotation is passed on once. `api` is the part of Label Studio's HTTP API that is
used, and `tasks` makes tasks from queries.
"""
