import schedule
import timetable


def planned():
    timetable.jobs.clear()
    schedule.plan()
    return timetable.jobs


def test_both_jobs_are_planned():
    assert sorted(planned()) == ["each second", "greeting"]


def test_greeting_runs_every_five_minutes(capsys):
    run, period, args = planned()["greeting"]
    run(**args)
    assert period == 300
    assert capsys.readouterr().out == "Hello, Ada\n"
