"""Calls that are refused in one sentence."""

import re

import pytest


def sentence_of(call, *args, **options) -> str:
  """Returns the one line of the `ValueError` or `TypeError` that a call raises."""
  with pytest.raises((ValueError, TypeError)) as raised:
    call(*args, **options)
  sentence = str(raised.value)
  assert sentence.strip()
  assert "\n" not in sentence
  return sentence


def refused(*cases):
  """Returns a test of pairs of a call and what its sentence holds."""

  @pytest.mark.parametrize(("call", "message"), cases, ids=[message for _, message in cases])
  def test(call, message):
    assert re.search(message, sentence_of(call))

  return test
