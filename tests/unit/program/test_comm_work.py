"""CommWork: columns stay together under arithmetic."""

from __future__ import annotations

import numpy as np

from windtunnel.program.comm_work import CommWork

ONE = CommWork.of(np.array([1.0, 2.0]), scale_up_bytes=3.0, scale_out_bytes=4.0, sm_seconds=0.5, hbm_bytes=6.0)


def test_figures_that_are_not_given_are_zero_and_all_columns_have_one_shape() -> None:
    work = CommWork.of(np.ones((3, 2)), hbm_bytes=7.0)
    assert all(column.shape == (3, 2) for column in work.columns)
    assert not work.scale_up_bytes.any() and (work.hbm_bytes == 7.0).all()


def test_arithmetic_acts_on_every_column() -> None:
    for found, factor in ((ONE + ONE, 2.0), (ONE * 3.0, 3.0), (ONE / 4.0, 0.25), (CommWork.total([ONE] * 5), 5.0)):
        for column, own in zip(found.columns, ONE.columns, strict=True):
            np.testing.assert_array_equal(column, own * factor)


def test_masks_and_choices_take_whole_tasks() -> None:
    first = np.array([True, False])
    assert ONE[first].seconds.tolist() == [1.0] and ONE[first].hbm_bytes.tolist() == [6.0]
    assert ONE.where(first).seconds.tolist() == [1.0, 0.0] and ONE.where(first).hbm_bytes.tolist() == [6.0, 0.0]
    assert CommWork.choose(first, ONE, ONE * 2.0).scale_out_bytes.tolist() == [4.0, 8.0]


def test_waiting_takes_seconds_alone_and_held_sms_follow_the_seconds() -> None:
    waiting = ONE.waiting_on(0.5)
    assert waiting.seconds.tolist() == [1.5, 2.5] and waiting.columns[1:] == ONE.columns[1:]
    assert ONE.on_sms(0.25).sm_seconds.tolist() == [0.25, 0.5]
