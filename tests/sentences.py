"""What calls that are refused say."""

import pytest


def sentence_of(call, *args, **options) -> str:
  """Returns the one line of the `ValueError` or `TypeError` that a call raises."""
  with pytest.raises((ValueError, TypeError)) as raised:
    call(*args, **options)
  sentence = str(raised.value)
  assert sentence.strip()
  assert "\n" not in sentence
  return sentence
