"""Profiles of slow requests, for operators: what is kept, and each as a flame graph."""

from typing import Annotated

from fastapi import FastAPI, Response
from pydantic import BaseModel

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.errors import RouteUnknown
from sandseal_host.api.grant import Grant
from sandseal_host.api.permit import permit
from sandseal_host.observe.profiles import Profile, SlowProfiles
from sandseal_host.registry.tokens import Scope


class ProfileEntry(BaseModel):
    """One profile: of which request, when it ended (seconds since 1970), and how long that took."""

    id: int
    at: float
    seconds: float
    model: str
    version: int
    status: int
    request_id: str


class ProfileList(BaseModel):
    """What is kept, oldest first; `threshold_s` is null where profiling is off."""

    threshold_s: float | None
    profiles: list[ProfileEntry]


def add_profile_routes(control: FastAPI, profiles: SlowProfiles | None, door: Doorkeeper) -> None:
    """Add the routes under /v1/profiles, for operators.

    Args:
        profiles: None where no request is profiled.
    """
    operators = permit(door, Scope.OPERATE)

    @control.get("/v1/profiles", summary="Profiles of slow requests")
    def show(grant: Annotated[Grant, operators]) -> ProfileList:
        if profiles is None:
            return ProfileList(threshold_s=None, profiles=[])
        return ProfileList(threshold_s=profiles.threshold_s, profiles=[_entry(kept) for kept in _seen(profiles, grant)])

    @control.get("/v1/profiles/{number}", summary="One of them, as speedscope reads it", response_class=Response)
    def fetch(grant: Annotated[Grant, operators], number: int) -> Response:
        for kept in _seen(profiles, grant) if profiles else ():
            if kept.id == number:
                return Response(kept.document, media_type="application/json")
        raise RouteUnknown(f"there is no profile {number}", hint="GET /v1/profiles lists those that are kept")


def _seen(profiles: SlowProfiles, grant: Grant) -> list[Profile]:
    return [kept for kept in profiles.profiles() if grant.sees(kept.request.model)]


def _entry(kept: Profile) -> ProfileEntry:
    request = kept.request
    return ProfileEntry(
        id=kept.id,
        at=kept.at,
        seconds=request.seconds,
        model=request.model,
        version=request.version,
        status=request.status,
        request_id=request.request_id,
    )
