"""The networks by name: the paper's own, and the one of its competitors."""

from __future__ import annotations

from collections.abc import Callable

from kshot.errors import UserError
from kshot.training.networks.base import Network
from kshot.training.networks.conv4 import conv4_32_cifar100, conv4_cifar100, conv4_miniimagenet
from kshot.training.networks.resnet import resnet34_miniimagenet
from kshot.training.networks.vgg import vgg_cifar100, vgg_miniimagenet

__all__ = ["NETWORKS", "Network", "build"]

NETWORKS: dict[str, Callable[[int], Network]] = {
    "conv4-32-cifar100": conv4_32_cifar100,
    "conv4-cifar100": conv4_cifar100,
    "conv4-miniimagenet": conv4_miniimagenet,
    "resnet34-miniimagenet": resnet34_miniimagenet,
    "vgg-cifar100": vgg_cifar100,
    "vgg-miniimagenet": vgg_miniimagenet,
}


def build(name: str, classes: int) -> Network:
    """Build the network `name` for `classes` base classes, with freshly drawn weights."""
    if name not in NETWORKS:
        raise UserError(f"there is no network {name!r}: choose one of {', '.join(sorted(NETWORKS))}")
    return NETWORKS[name](classes)
