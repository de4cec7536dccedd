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


def refused(*cases, most=2_000):
  """Returns a test of calls, and what each one's sentence of less than `most` letters holds."""

  @pytest.mark.parametrize(("call", "message"), cases, ids=[message for _, message in cases])
  def test(call, message):
    sentence = sentence_of(call)
    assert re.search(message, sentence)
    assert len(sentence) < most

  return test


def run(capsys, main, *arguments):
  """Returns what a command prints on standard output and on standard error, and its exit code."""
  code = main([str(x) for x in arguments])
  return *capsys.readouterr(), code


def error_of(capsys, main, *arguments, code=2):
  """Returns the one line in which a command refuses its arguments."""
  out, err, found = run(capsys, main, *arguments)
  assert (out, found) == ("", code), err
  assert err.startswith("error: ")
  assert err.count("\n") == 1
  return err
