"""The cores of a CPU as devices."""

import os
import subprocess
import sys

import pytest

from rebel_jax.config.presets import get_preset
from rebel_jax.devices import cpu_devices


@pytest.mark.parametrize(
  ("cores", "changes", "expected"),
  [
    (1, {}, 1),
    (2, {}, 2),
    (4, {}, 4),
    (64, {}, 4),  # no fewer than 16 lanes each
    (3, {}, 2),  # three do not divide the lanes
    (8, {"lanes": 8}, 1),
    (8, {"num_devices": 3}, 3),
    (2, {"num_devices": 3}, 2),
    (8, {"lanes": 96, "batch_size": 256, "buffer_size": 65_536}, 4),
  ],
)
def test_number_of_devices(cores, changes, expected):
  number = changes.pop("num_devices", None)
  config = get_preset("liars_dice_1x4f").replace(**changes)
  assert cpu_devices.choose_number(config, cores, number) == expected


def test_a_resumed_run_keeps_its_number():
  config = get_preset("liars_dice_1x4f")
  assert cpu_devices.choose_number(config, 1, before=4) == 4
  assert cpu_devices.choose_number(config, 8, before=1) == 1
  assert cpu_devices.choose_number(config, 2, 4, before=4) == 4
  assert cpu_devices.choose_number(config, 2, 4) == 2
  assert cpu_devices.choose_number(config, 8, 2, before=1) == 2


_SCRIPT = """
import jax
from rebel_jax.devices import cpu_devices
from rebel_jax.config.presets import get_preset
cpu_devices.num_cores = lambda: 4
cpu_devices.share_cores(get_preset("liars_dice_1x4f"))
print(jax.device_count())
cpu_devices.share_cores(get_preset("kuhn_poker"))  # too late: nothing happens
print(jax.device_count())
"""


@pytest.mark.parametrize(
  ("variables", "expected"),
  [
    ({}, "4\n4\n"),
    ({"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}, "3\n3\n"),
    ({"JAX_NUM_CPU_DEVICES": "2"}, "2\n2\n"),
  ],
)
def test_cores_become_devices_unless_the_user_said_otherwise(variables, expected):
  environment = {
    k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")
  }
  done = subprocess.run(
    [sys.executable, "-c", _SCRIPT],
    env=environment | variables,
    capture_output=True,
    text=True,
    check=True,
  )
  assert done.stdout == expected
