from shout import Speaker, loud


class Dog:
    def speak(self):
        return "woof"


def test_any_speaker_will_do():
    assert loud(Dog()) == "WOOF"


def test_speaker_is_a_protocol():
    assert getattr(Speaker, "_is_protocol", False)
