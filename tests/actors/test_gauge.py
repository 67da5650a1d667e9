from legato.actors.gauge import DeviceGauge


def test_back_to_back_steps_leave_no_bubble():
    gauge = DeviceGauge()
    gauge.note_work(True, 1.0)
    for start in (1.0, 2.0, 3.0):
        gauge.note_plan(1.0)
        gauge.note_step(start, start + 1.0)
    assert gauge.idle_s == 0
    assert gauge.busy_s == 3.0
    assert gauge.steps == 3


def test_a_late_plan_is_a_bubble_since_the_step_before():
    gauge = DeviceGauge()
    gauge.note_work(True, 0.0)
    gauge.note_plan(0.0)
    gauge.note_step(0.0, 1.0)
    gauge.note_plan(1.2)
    gauge.note_step(1.25, 2.0)
    assert gauge.last_idle_s == 0.25


def test_time_without_work_is_no_bubble():
    gauge = DeviceGauge()
    gauge.note_work(True, 0.0)
    gauge.note_plan(0.0)
    gauge.note_step(0.0, 1.0)
    gauge.note_work(False, 1.0)
    gauge.note_work(True, 9.0)
    gauge.note_plan(9.0)
    gauge.note_step(9.5, 10.0)
    assert gauge.idle_s == 0.5


def test_work_that_stays_keeps_its_first_moment():
    gauge = DeviceGauge()
    gauge.note_work(True, 1.0)
    gauge.note_work(True, 2.0)
    gauge.note_plan(2.0)
    gauge.note_step(3.0, 4.0)
    assert gauge.idle_s == 2.0


def test_the_plans_of_a_dead_device_are_forgotten():
    gauge = DeviceGauge()
    gauge.note_work(True, 0.0)
    gauge.note_plan(0.0)
    gauge.note_plan(0.0)
    gauge.forget_plans()
    gauge.note_plan(5.0)
    gauge.note_step(5.0, 6.0)
    assert gauge.steps == 1
