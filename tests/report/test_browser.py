"""The site in a real browser, as readers use it: links, narrow and wide, light and dark, on paper."""

import pytest

from repro.evidence.declared import gate
from repro.report.render import write_tables
from tests.report import browser
from tests.report.fakes import House
from tests.report.test_render import fill
from tests.report.views.fair import fair

pytestmark = pytest.mark.skipif(
    browser.find() is None, reason=f"no browser here: none of {', '.join(browser.NAMES)}"
)
WIDTH = "document.documentElement.scrollWidth"
PAGES = [
    "index.html",
    "pages/toy.html",
    "pages/toy--bigger-is-better-1.html",
    "pages/runs.html",
    "pages/tests.html",
]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    made = browser.Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The results of the small house, with a fair test."""
    root = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_RESULTS", str(root / "results"))
        patch.setenv("REPRO_CONFIGS", str(root / "configs"))
        patch.setattr(gate, "UNTRAINED", 100)  # updates of the records, whose test is tuned by nothing
        house = House(root)
        fair(house)
        fill(house)
        write_tables(site=True)
    return root / "results"


@pytest.fixture
def site(folder, chromium):
    """The browser with the first page open; at the end nothing was complained of, or asked for elsewhere."""
    chromium.events.clear()
    chromium.look(1400)
    chromium.open((folder / "index.html").as_uri())
    yield chromium
    assert chromium.complaints() == []
    assert all(url.startswith(folder.as_uri()) for url in chromium.requests())


def test_from_the_first_screen_to_a_test_and_to_all_runs(site, folder):
    title = "document.querySelector('h1').textContent"
    for link, heading in (
        ("A Toy Paper (2020)", "A Toy Paper"),
        ("Big has more BLEU than base after 100 updates.", "Big has more BLEU than base after 100 updates."),
        ("runs", "Runs"),
        ("Overview", "repro"),
    ):
        find = f"[...document.querySelectorAll('a')].find(a => a.textContent === {link!r}).href"
        site.open(site.run(find))
        assert site.run(title) == heading


def test_a_verdict_explains_itself(site, folder):
    site.open((folder / PAGES[2]).as_uri())
    badge = "document.querySelector('.v-same-order')"
    assert site.run(f"{badge}.title").startswith("A fair test")
    assert site.run(f"getComputedStyle({badge}).color") == "rgb(10, 102, 64)"


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [390, 800, 1400])
def test_nothing_is_wider_than_the_window(site, folder, page, width):
    site.look(width, phone=width < 500)
    site.open((folder / page).as_uri())
    assert site.run(WIDTH) <= width


def test_wide_tables_scroll_in_their_own_box_and_keep_their_first_column(site, folder):
    site.look(390, phone=True)
    site.open((folder / "pages/toy.html").as_uri())
    wide = "[...document.querySelectorAll('.scroll')].find(box => box.scrollWidth > box.clientWidth + 50)"
    site.run(f"{wide}.scrollLeft = 50")
    left = f"{wide}.querySelector('tbody th').getBoundingClientRect().left"
    assert site.run(left) == site.run(f"{wide}.getBoundingClientRect().left")


def test_light_and_dark(site, folder):
    back = "getComputedStyle(document.body).backgroundColor"
    assert site.run(back) == "rgb(255, 255, 255)"
    site.look(1400, dark=True)
    assert site.run(back) == "rgb(19, 23, 28)"


def test_figures_load_when_they_are_seen_and_follow_the_theme(site, folder):
    site.look(1400, dark=True)
    site.open((folder / "pages/toy.html").as_uri())
    image = "document.querySelector('img[src$=\"toy--big--paper.svg\"]')"
    site.run(f"{image}.scrollIntoView()")
    assert site.run(f"{image}.decode().then(() => {image}.naturalWidth)") > 300
    site.run(f"{image}.scrollIntoView()")
    place = site.run(f"(({{x, y}}) => [x + 2, y + 2])({image}.getBoundingClientRect())")
    assert site.pixel(*place) == (19, 23, 28)


def test_without_a_script_all_is_there(site, folder):
    site.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        site.open((folder / "pages/toy.html").as_uri())
        assert site.run("document.querySelectorAll('table').length") > 3
    finally:
        site.call("Emulation.setScriptExecutionDisabled", value=False)
