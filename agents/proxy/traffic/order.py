"""The order of a capture's lines: that of its requests' numbers, whatever order they were written in.

A file in order is read as it stands. Of any other only the places of its lines are held, never the lines. Numbers that
start again (one that the same address and program had before) begin another run of numbers; runs stay in the order in
which they begin. A response follows its request: by the times of the lines where they have one, else at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from agents.proxy.traffic.executions import route, sender
from agents.proxy.traffic.reading import BadLine, Line, Place, Request, Response

#: How many later requests may have begun before an answer came.
_OVERLAP = 256


@dataclass(frozen=True, slots=True)
class _Request:
    place: Place
    seq: int
    at: float | None
    run: int


@dataclass(frozen=True, slots=True)
class _Response:
    place: Place
    seq: int
    at: float | None


@dataclass(slots=True)
class Order:
    """Told of each line of a file once, in the order of the file."""

    _requests: list[_Request] = field(default_factory=list)
    _responses: list[_Response] = field(default_factory=list)
    _bad: list[Place] = field(default_factory=list)
    #: Of each sender: the number of its newest run, and the numbers in it.
    _run: dict[str, int] = field(default_factory=dict)
    _seen: dict[str, set[int]] = field(default_factory=dict)
    _highest: dict[str, int] = field(default_factory=dict)
    _has_fallen: bool = False

    def watch(self, lines: Iterable[tuple[Line, int]]) -> Iterator[Line]:
        """The lines, each looked at; each comes with the position of its end in the file."""
        start = 0
        for line, end in lines:
            place = Place(line.line, start, end)
            start = end
            if isinstance(line, BadLine):
                self._bad.append(place)
            elif isinstance(line, Response):
                self._responses.append(_Response(place, line.seq, line.at))
            else:
                self._requests.append(_Request(place, line.seq, line.at, self._run_of(line)))
            yield line

    def _run_of(self, request: Request) -> int:
        key = sender(request, route(request).base)
        seen = self._seen.setdefault(key, set())
        if request.seq in seen:
            self._run[key] = self._run.get(key, 1) + 1
            seen.clear()
        elif seen and request.seq < self._highest[key]:
            self._has_fallen = True
        self._highest[key] = max(request.seq, self._highest[key]) if seen else request.seq
        seen.add(request.seq)
        return self._run.get(key, 1)

    def changed(self) -> list[Place] | None:
        """The places of the lines in order; None where the file is in order as it stands."""
        pairs = self._pairs()
        if not self._has_fallen and all(asked.place.start < said.place.start for asked, said in pairs):
            return None
        requests = sorted(self._requests, key=lambda r: (r.run, r.seq, r.place.start))
        position = {request.place.start: i for i, request in enumerate(requests)}
        following: defaultdict[int, list[_Response]] = defaultdict(list)
        for asked, said in pairs:
            following[_slot(requests, position[asked.place.start], said)].append(said)
        places = list(self._bad)
        for i, request in enumerate(requests):
            places.append(request.place)
            places += [said.place for said in sorted(following[i], key=lambda s: (s.at or 0.0, s.seq))]
        return places

    def _pairs(self) -> list[tuple[_Request, _Response]]:
        """Requests with their responses; a response without a request is left out."""
        asked: defaultdict[int, list[_Request]] = defaultdict(list)
        said: defaultdict[int, list[_Response]] = defaultdict(list)
        for request in self._requests:
            asked[request.seq].append(request)
        for response in self._responses:
            said[response.seq].append(response)
        pairs: list[tuple[_Request, _Response]] = []
        for seq, responses in said.items():
            requests = asked.get(seq, [])
            if len(requests) == len(responses):
                pairs += zip(requests, responses, strict=True)
            else:
                pairs += _nearest(requests, responses)
        return pairs


def _nearest(requests: list[_Request], responses: list[_Response]) -> list[tuple[_Request, _Response]]:
    """Each response with the newest request before it that has none, else with the first one after it."""
    free, left = list(requests), []
    pairs: list[tuple[_Request, _Response]] = []
    for response in responses:
        before = [request for request in free if request.place.start < response.place.start]
        if before:
            free.remove(before[-1])
            pairs.append((before[-1], response))
        else:
            left.append(response)
    for response in left:
        if free:
            pairs.append((free.pop(0), response))
    return pairs


def _slot(requests: list[_Request], at: int, response: _Response) -> int:
    """Behind which request a response stands."""
    if response.at is None:
        return at
    last, run = at, requests[at].run
    for later in range(at + 1, min(len(requests), at + _OVERLAP)):
        began = requests[later].at
        if requests[later].run != run or began is None or began >= response.at:
            break
        last = later
    return last
