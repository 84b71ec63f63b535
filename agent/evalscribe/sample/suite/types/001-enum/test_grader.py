from light import Light, after


def test_cycle():
    assert after(Light.RED) is Light.GREEN
    assert after(Light.GREEN) is Light.AMBER
    assert after(Light.AMBER) is Light.RED
