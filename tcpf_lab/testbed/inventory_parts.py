"""The mappings that an inventory is made of: hosts, cables, files of SSH."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from tcpf_lab.spec.base import RefusedError, SpecModel
from tcpf_lab.spec.model import Name
from tcpf_lab.testbed import inventory_words as words
from tcpf_lab.units import Rate

#: Keys that somebody may want to write and that must not stand in a file.
_SECRETS = ("password", "passphrase", "passwd", "secret", "key", "sudo_password")


def _listed(value: Any) -> Any:
    return (
        (value,) if isinstance(value, str) else tuple(value) if value.__class__ is list else value
    )


Interface = Annotated[str, AfterValidator(words.interface)]
Roles = Annotated[
    tuple[Annotated[str, AfterValidator(words.role)], ...],
    BeforeValidator(_listed),
    WithJsonSchema(
        {"anyOf": [words.ROLE_SCHEMA, {"type": "array", "items": words.ROLE_SCHEMA, "minItems": 1}]}
    ),
]
Place = Annotated[str, AfterValidator(words.path)]


class WithoutSecrets(SpecModel):
    """A mapping that refuses credentials by name, and says where they belong instead."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_secrets(cls, value: Any) -> Any:
        sentence = (
            "no credential is kept in a file; use an SSH key with an agent (ssh-add), "
            "and ssh.identity to name its file"
        )
        found = [key for key in value if key in _SECRETS] if isinstance(value, dict) else []
        if found:
            raise RefusedError(tuple(((key,), sentence) for key in found))
        return value


class Host(WithoutSecrets):
    """A machine that is reached by SSH."""

    address: Annotated[str, AfterValidator(words.address)] | None = Field(
        default=None,
        description="Name or address for `ssh`, or a `Host` of the SSH configuration; without it "
        "the host's own name in this file.",
    )
    user: Annotated[str, AfterValidator(words.user)] | None = Field(
        default=None,
        description="Who logs in, root or somebody with `sudo` without a password; without it the "
        "SSH configuration decides.",
    )
    port: int | None = Field(
        default=None, ge=1, le=65535, description="Port of sshd; the SSH configuration decides."
    )
    control: Interface = Field(
        description="The interface by which the host is reached. It is never touched."
    )
    roles: Roles = Field(
        min_length=1, description="What the host plays: one or more of S, R0, R1, R2, D."
    )
    kernel: Name | None = Field(
        default=None,
        description="One word for hosts that are namespaces of one kernel and see each other's "
        "processes: between them a half-duplex link is a wire, and the cable is left alone.",
    )
    interfaces: dict[str, Interface] = Field(
        default={},
        description="`ROLE-PEER: INTERFACE`, the interface of the cable that leads from a role to "
        "the next. Roles that share a host need none: they get a pair of virtual interfaces.",
    )


class Links(SpecModel):
    """What the cables can carry."""

    rate: Rate | None = Field(default=None, description="Rate of every cable.")
    rates: dict[str, Rate] = Field(
        default={}, description="`ROLE-PEER: RATE` of cables with another one."
    )


class Ssh(WithoutSecrets):
    """Files of SSH that are not the usual ones; paths are relative to the inventory."""

    config: Place | None = Field(default=None, description="Instead of `~/.ssh/config`.")
    known_hosts: Place | None = Field(
        default=None,
        description="Looked into before `~/.ssh/known_hosts`. "
        "An unknown host key is always refused.",
    )
    identity: Place | None = Field(default=None, description="File of the private key to use.")
