"""Every setting of the front end, in one flat place."""

import msgspec

from ..protocol.errors import InvalidSetting

# How long, and for how many bytes, a refused client may send on before its connection
# is cut: most read an answer only when they have sent everything.
LINGER_S = 10.0
LINGER_BYTES = 64 * 2**20


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the front end; each has a default that works.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        api_keys: Keys of which a request must carry one; none asks for none.
        allowed_origins: Web pages that may speak to this server, such as
            ``https://chat.example``; ``*`` lets every page in.
        allow_localhost: Pages served from this machine may too, whatever their port.
        max_header_bytes: Largest headers of a request, its URL included.
        header_deadline_s: Longest wait for them to be complete; an idle connection
            that had a request before is closed sooner.
        max_body_bytes: Largest HTTP body.
        body_deadline_s: Longest wait for a body.
        max_frame_bytes: Largest WebSocket message; a larger one closes with 1009.
        max_lanes: Lanes (``stream_id``) at work on one socket.
        max_in_flight: Responses running or waiting in lanes on one socket.
        max_connection_s: Longest that a socket of ``/v1/responses`` lasts.
        handshake_deadline_s: Longest wait for an API key in its first frame.
        max_requests_per_key: Answers under way for one API key; 0: no limit.
        max_runs: Resumable and background responses that are kept at once.
        replay_total_bytes: Most bytes that the events of all of them take.
        state_store: File that keeps responses; "": they end with the process.
        store_entries: Most responses that are kept.
        store_bytes: Most bytes that they take.
        store_ttl_s: Longest that one is kept.
        outbox_entries: Deltas that wait for a socket before its lanes stop pulling.
        send_deadline_s: Longest that a client may read nothing while there is
            something to read.
        resume_grace_s: How long an answer that can be resumed waits for its reader.
        replay_bytes: Most bytes of an answer that are kept for one who resumes it.
        drain_s: Longest wait at shutdown for answers under way.
        ping_interval_s: Between two pings of a socket.
        ping_timeout_s: Longest wait for the pong.
        playground: Serve the playground at ``/``, with its client, ``/legato.js``.
        access_log: Write a line for each request to standard error.
        backlog: Connections that wait to be accepted.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_keys: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    allow_localhost: bool = True
    max_header_bytes: int = 64 * 2**10
    header_deadline_s: float = 10.0
    max_body_bytes: int = 8 * 2**20
    body_deadline_s: float = 60.0
    max_frame_bytes: int = 4 * 2**20
    max_lanes: int = 64
    max_in_flight: int = 256
    max_connection_s: float = 3600.0
    handshake_deadline_s: float = 10.0
    max_requests_per_key: int = 0
    max_runs: int = 4096
    resume_grace_s: float = 60.0
    replay_bytes: int = 4 * 2**20
    replay_total_bytes: int = 256 * 2**20
    state_store: str = ""
    store_entries: int = 10_000
    store_bytes: int = 256 * 2**20
    store_ttl_s: float = 24 * 3600.0
    outbox_entries: int = 16
    send_deadline_s: float = 30.0
    drain_s: float = 30.0
    ping_interval_s: float = 20.0
    ping_timeout_s: float = 20.0
    playground: bool = True
    access_log: bool = False
    backlog: int = 2048

    def __repr__(self) -> str:
        # Settings end up in logs and tracebacks; keys must not.
        fields = (f for f in self.__struct_fields__ if f != "api_keys")
        said = ", ".join(f"{name}={getattr(self, name)!r}" for name in fields)
        return f"ServeSettings({len(self.api_keys)} api_keys, {said})"

    def __post_init__(self) -> None:
        for name in (
            "max_header_bytes",
            "max_body_bytes",
            "max_frame_bytes",
            "max_lanes",
            "max_in_flight",
            "outbox_entries",
            "max_runs",
            "replay_bytes",
            "replay_total_bytes",
            "store_entries",
            "store_bytes",
        ):
            if getattr(self, name) < 1:
                raise InvalidSetting(f"{name} must be at least 1")
        if self.max_requests_per_key < 0:
            raise InvalidSetting("max_requests_per_key must be at least 0")
        for name in (
            "header_deadline_s",
            "body_deadline_s",
            "send_deadline_s",
            "max_connection_s",
            "handshake_deadline_s",
            "resume_grace_s",
            "store_ttl_s",
        ):
            if not getattr(self, name) > 0:
                raise InvalidSetting(f"{name} must be more than 0 seconds")
        if not 0 <= self.port < 2**16:
            raise InvalidSetting(f"port must be 0 to 65535, got {self.port}")
        for key in self.api_keys:
            if not key or not key.isascii() or not key.isprintable() or " " in key:
                raise InvalidSetting(
                    "an API key must be printable ASCII without spaces"
                )
