"""Who may do what: tokens for programs, a login for people.

A token is shown once, when it is made; the database holds its SHA-256 digest. Without any token the service is open,
and then it serves this machine alone (`server` refuses to bind elsewhere). Programs send `Authorization: Bearer`;
people log in with a token and get a cookie that scripts cannot read and other sites cannot send.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
import threading
import time
from typing import NamedTuple

import sqlalchemy as sql

from osamd.errors import InputError, nearest
from osamd.service.database_tables import sessions, tokens
from osamd.service.log import Log

ROLES = ("client", "annotator", "reader", "admin")
"""A client sends samples; an annotator sees and answers queries; a reader reads the status; an admin only changes the
stream."""
COOKIE = "osamd_session"
SESSION_SECONDS = 12 * 3600.0
WRITE_USE = 60.0
"""Seconds between two writes of the times at which tokens were last used."""
MOST_ADDRESSES = 10_000
"""Addresses whose refusals are counted; with more, the counts restart."""
_SEEN_FOR = 2.0
"""Seconds for which the tokens of the database are cached: a revoked token works for that long."""


class Person(NamedTuple):
    """Who sends a request: the name of the token, and what it may do."""

    name: str
    roles: frozenset[str]


LOCAL = Person("local", frozenset(ROLES))
"""Everybody, if there are no tokens."""


def make_token(log: Log, name: str, role: str, days: float | None = None) -> str:
    """A new token, valid for this many days. Only its digest is stored."""
    if role not in ROLES:
        raise InputError(f"`make_token(role={role!r})`: no such role. {nearest(role, ROLES)}")
    if not re.fullmatch(r"[A-Za-z0-9._@-]{1,64}", name):
        raise InputError(f"`make_token(name={name[:80]!r})`: give letters, digits, and any of . _ @ -, at most 64.")
    token = f"osamd_{secrets.token_urlsafe(32)}"
    with log.writing() as connection:
        if connection.execute(sql.select(tokens.c.name).where(tokens.c.name == name)).first():
            raise InputError(
                f"`make_token(name={name!r})`: a token with this name exists; revoke it first, or give another name."
            )
        expires = None if days is None else time.time() + 86_400.0 * days
        row = {"name": name, "role": role, "digest": digest(token), "expires": expires}
        connection.execute(sql.insert(tokens), row)
    return token


def revoke_token(log: Log, name: str) -> None:
    """Delete a token and its logins."""
    with log.writing() as connection:
        gone = connection.execute(sql.delete(tokens).where(tokens.c.name == name)).rowcount
        connection.execute(sql.delete(sessions).where(sessions.c.name == name))
    if not gone:
        raise InputError(f"`revoke_token(revoke={name!r})`: there is no such token; `osamd token STATE` lists them.")


class TokenRecord(NamedTuple):
    """What is known about a token: its name, its role, when it expires, and when it was last used."""

    name: str
    role: str
    expires: float | None
    used: float | None


def token_list(log: Log) -> list[TokenRecord]:
    """All tokens."""
    with log.reading() as connection:
        columns = (tokens.c.name, tokens.c.role, tokens.c.expires, tokens.c.used)
        return [TokenRecord(*row) for row in connection.execute(sql.select(*columns).order_by(tokens.c.name))]


def token_names(log: Log) -> list[tuple[str, str]]:
    """The names and roles of all tokens."""
    return [(one.name, one.role) for one in token_list(log)]


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


class Doorkeeper:
    """Knows the tokens and logins of a database."""

    def __init__(self, log: Log, may_open: bool = True) -> None:
        self._log, self._may_open = log, may_open
        self._lock = threading.Lock()
        self._read_at = -1e9
        self._tokens: list[tuple[str, str, str]] = []
        self._any = False
        self._used: dict[str, float] = {}
        self._used_written = time.monotonic()
        self.refused: dict[str, int] = {}
        """Refused tokens and logins per address, since the last log line about them."""

    @property
    def open(self) -> bool:
        """Whether no token is needed, because there are none and only this machine can reach the service."""
        return self._may_open and not self._known() and not self._any

    @property
    def stale(self) -> bool:
        """Whether the cached tokens are too old, so that the next call reads the database."""
        return time.monotonic() - self._read_at > _SEEN_FOR

    def refresh(self) -> None:
        """Read the tokens again if the cache is stale, and write when they were last used."""
        self._known()
        if self._used and time.monotonic() - self._used_written > WRITE_USE:
            self.write_use()

    def write_use(self) -> None:
        used, self._used, self._used_written = self._used, {}, time.monotonic()
        with self._log.writing() as connection:
            for name, at in used.items():
                connection.execute(sql.update(tokens).where(tokens.c.name == name).values(used=at))

    def refuse(self, address: str) -> None:
        """Note a token that is not known: the first of an address, and then every hundredth, is a line of the log."""
        number = self.refused[address] = self.refused.get(address, 0) + 1
        if number == 1 or number % 100 == 0:
            logging.getLogger("osamd.service").warning("a token from %s was refused (%d so far)", address, number)
        if len(self.refused) > MOST_ADDRESSES:
            self.refused.clear()

    def knows(self, person: Person) -> bool:
        """Whether this person's token is still valid."""
        if person == LOCAL:
            return self.open
        return any(name == person.name and role in person.roles for name, role, _ in self._known())

    def by_token(self, token: str) -> Person | None:
        """The person with this token. It is compared with all tokens, each in constant time."""
        given, found = digest(token), None
        for name, role, known in self._known():
            if hmac.compare_digest(given, known):
                found = Person(name, frozenset({role}))
        if found is not None:
            self._used[found.name] = time.time()
        return found

    def log_in(self, token: str) -> tuple[Person, str] | None:
        """The person, and the secret for the cookie."""
        person = self.by_token(token)
        if person is None:
            return None
        secret, now = secrets.token_urlsafe(32), time.time()
        with self._log.writing() as connection:
            connection.execute(sql.delete(sessions).where(sessions.c.until < now))
            row = {"digest": digest(secret), "name": person.name, "until": now + SESSION_SECONDS}
            connection.execute(sql.insert(sessions), row)
        return person, secret

    def by_cookie(self, secret: str) -> Person | None:
        """The person who logged in with this cookie. The comparison of digests reveals nothing about the secret."""
        chosen = sql.select(sessions.c.name).where(sessions.c.digest == digest(secret), sessions.c.until > time.time())
        with self._log.reading() as connection:
            name = connection.execute(chosen).scalar()
        roles = {known: role for known, role, _ in self._known()}
        return Person(name, frozenset({roles[name]})) if name in roles else None

    def log_out(self, secret: str) -> None:
        with self._log.writing() as connection:
            connection.execute(sql.delete(sessions).where(sessions.c.digest == digest(secret)))

    def _known(self) -> list[tuple[str, str, str]]:
        with self._lock:
            if self.stale:
                columns = (tokens.c.name, tokens.c.role, tokens.c.digest, tokens.c.expires)
                with self._log.reading() as connection:
                    found = connection.execute(sql.select(*columns)).all()
                now = time.time()
                self._any = bool(found)  # a service whose tokens have all expired does not open to everybody
                valid = [row for row in found if row.expires is None or row.expires > now]
                self._tokens = [(row.name, row.role, row.digest) for row in valid]
                self._read_at = time.monotonic()
            return self._tokens
