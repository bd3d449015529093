"""The page in a real browser, as readers use it: filters, cells, runs, the way back; narrow, wide, light, dark."""

import pytest

from repro.report.render import write_tables
from tests.report import browser
from tests.report.fakes import PUBLISHED, House
from tests.report.test_plots import fill as every_kind
from tests.report.test_render import fill

pytestmark = pytest.mark.skipif(
    browser.find() is None, reason=f"no browser here: none of {', '.join(browser.NAMES)}"
)
SHOWN = """[...document.querySelectorAll('tbody[data-k]')].filter(row => row.checkVisibility())
  .map(row => row.id.slice('row-toy--'.length))"""
CHOOSE = """(name, value) => {
  const field = document.getElementById('filters').elements[name];
  field.value = value;
  field.dispatchEvent(new Event('input', {bubbles: true}));
}"""
WIDTH = "document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    made = browser.Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The results of the small house, with every kind of figure."""
    root = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_RESULTS", str(root / "results"))
        patch.setenv("REPRO_CONFIGS", str(root / "configs"))
        house = House(root)
        house.publish(f"{PUBLISHED}headline: {{trend: bigger-is-better, curve: val/bleu}}\n")
        fill(house)
        every_kind(house)
        write_tables()
    return root / "results"


@pytest.fixture
def site(folder, chromium):
    """The browser with the small house's page open, and nothing to complain of at the end."""
    url = (folder / "index.html").as_uri()
    chromium.events.clear()
    chromium.look(1280)
    chromium.open(url)
    yield chromium, url
    assert chromium.complaints() == []
    figures = (folder / "plots").as_uri()
    others = {u.partition("#")[0] for u in chromium.requests() if not u.startswith(figures)}
    assert others == {url}


def choose(page, name, value):
    page.run(f"({CHOOSE})({name!r}, {value!r})")
    page.settle()


def click(page, selector):
    page.run(f"document.querySelector({selector!r}).click()")
    page.settle()


def test_filter_open_a_cell_follow_to_the_run_and_go_back(site):
    page, _ = site
    assert page.run("document.querySelector('output').textContent") == "6 rows, 3 claims, 6 groups of runs"
    choose(page, "verdict", "reproduced")
    assert page.run(SHOWN) == ["table1--big"]
    assert page.run("location.hash") == "#?verdict=reproduced"
    assert page.run("document.querySelector('output').textContent").startswith("1 of 6 rows, 0 of 3 claims, ")
    click(page, "#row-toy--table1--big tr.ours td a")
    assert page.run("location.hash") == "#runs-toy--big--paper"
    assert page.run("document.getElementById('runs-toy--big--paper').checkVisibility()")
    click(page, "#runs-toy--big--paper tr[id] a")
    run = page.run("location.hash")
    assert run.startswith("#run-toy--big--paper-s1-")
    top = page.run("document.querySelector(':target').getBoundingClientRect().top")
    assert 0 < top < page.run("innerHeight")
    page.run("history.back()")
    page.settle()
    assert page.run("location.hash") == "#runs-toy--big--paper"
    page.run("history.back()")
    page.settle()
    assert page.run("location.hash") == "#?verdict=reproduced"
    assert page.run(SHOWN) == ["table1--big"]
    click(page, "button[type=reset]")
    assert len(page.run(SHOWN)) == 5  # the table of which nothing was measured is folded again
    assert page.run("location.hash") == ""


def test_every_filter_and_words(site):
    page, _ = site
    choose(page, "scale", "cpu")
    assert page.run(SHOWN) == ["table1--big"]
    choose(page, "scale", "")
    choose(page, "q", "RIVAL toys")
    assert page.run(SHOWN) == ["table1--rival"]
    choose(page, "q", "nothing has these words")
    assert page.run(SHOWN) == []
    assert page.run("document.getElementById('nothing').checkVisibility()")
    choose(page, "q", "")
    choose(page, "verdict", "incomplete")
    assert (
        page.run("[...document.querySelectorAll('tr[data-k=c]')].filter(e => e.checkVisibility()).length")
        == 2
    )
    choose(page, "verdict", "")
    choose(page, "paper", "toy")
    assert not page.run("document.getElementById('overview').checkVisibility()")


def test_filters_and_runs_can_be_sent_as_an_address(site):
    page, url = site
    page.open(f"{url}#?paper=toy&verdict=undecided&q=base")
    assert page.run(SHOWN) == ["table1--base"]
    assert page.run("document.getElementById('filters').elements.q.value") == "base"
    page.open(f"{url}#?verdict=no-such-verdict")
    assert len(page.run(SHOWN)) == 5
    page.open(f"{url}#?verdict=undecided")
    run = page.run("document.querySelector('#runs-toy--grid\\\\@a--cpu tr[id]').id")
    page.run(f"location.hash = {run!r}")
    page.settle()
    assert page.run("document.querySelector(':target').checkVisibility()")  # although no filter shows it
    page.open(f"{url}#table-toy--external-rerun")
    assert page.run("document.querySelector(':target').open")


def test_filters_work_by_keyboard_and_the_focus_is_seen(site):
    page, _ = site
    page.key("Tab")
    assert page.run("document.activeElement.className") == "skip"
    assert page.run("document.activeElement.getBoundingClientRect().width") > 50
    for _ in range(12):
        page.key("Tab")
        if page.run("document.activeElement.name") == "q":
            break
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.type("rival")
    page.settle()
    assert page.run(SHOWN) == ["table1--rival"]


def test_figures_load_when_they_are_seen_and_follow_the_theme(site):
    page, _ = site
    assert not any("big--paper" in url for url in page.requests())
    page.run("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    image = "document.querySelector('img[src$=\"toy--big--paper.svg\"]')"
    page.run(f"{image}.scrollIntoView()")
    assert page.run(f"{image}.decode().then(() => {image}.naturalWidth)") > 300
    place = page.run(f"(({{x, y}}) => [x + 2, y + 2])({image}.getBoundingClientRect())")
    shades = []
    for theme in ("light", "dark"):
        page.run(f"document.documentElement.dataset.theme = {theme!r}")
        page.settle()
        shades.append(page.pixel(*place))
    assert shades == [(255, 255, 255), (19, 23, 28)]


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(site, width):
    page, url = site
    page.look(width, phone=width < 500)
    page.open(url)
    assert page.run(WIDTH) <= width
    page.run("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    page.settle()
    assert page.run(WIDTH) <= width
    if width < 500:
        assert not page.run("document.getElementById('filters').checkVisibility()")
        click(page, "#more")
        assert page.run("document.getElementById('filters').checkVisibility()")
        assert page.run("document.getElementById('more').getAttribute('aria-expanded')") == "true"
        assert page.run(WIDTH) <= width


def test_light_and_dark_and_a_choice_that_is_kept(site):
    page, url = site
    back = "getComputedStyle(document.body).backgroundColor"
    page.look(1280, dark=True)
    assert page.run(back) == "rgb(19, 23, 28)"
    line = "getComputedStyle(document.querySelector('figure path[stroke*=k0]')).stroke"
    assert page.run(line) == "rgb(74, 168, 224)"
    click(page, "#theme")
    assert page.run(back) == "rgb(255, 255, 255)"
    page.open(url)
    assert page.run(back) == "rgb(255, 255, 255)"
    assert page.run("document.getElementById('theme').getAttribute('aria-label')") == "Theme: light"
    page.look(1280)
    click(page, "#theme")
    assert page.run(back) == "rgb(19, 23, 28)"
    click(page, "#theme")
    assert page.run("document.getElementById('theme').textContent") == "◐ auto"


def test_print_opens_every_fold_and_leaves_out_what_paper_cannot_use(site):
    page, _ = site
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert page.run("document.querySelectorAll('details:not([open])').length") == 0
    page.call("Emulation.setEmulatedMedia", media="print")
    assert not page.run("document.getElementById('filters').checkVisibility()")
    page.call("Emulation.setEmulatedMedia", media="")
    page.run("dispatchEvent(new Event('afterprint'))")
    assert page.run("document.querySelectorAll('details:not([open])').length") > 0


def test_without_the_script_all_is_there(site):
    page, url = site
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(f"{url}#runs-toy--big--paper")
        assert not page.run("document.documentElement.classList.contains('has-js')")
        # The browser itself opens the fold that the address leads into.
        assert page.run("document.getElementById('runs-toy--big--paper').checkVisibility()")
        assert not page.run("document.getElementById('filters').checkVisibility()")
        assert page.run(WIDTH) <= 1280
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)
