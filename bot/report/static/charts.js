/* Reading a chart: what is pointed at, or chosen with the arrow keys, is told below it. */
for (const plot of document.querySelectorAll(".plot")) {
  const spots = [...plot.querySelectorAll("[data-tip]")];
  const tip = plot.parentElement.querySelector(".tip");
  let chosen = -1;

  const choose = (place) => {
    if (spots[chosen]) spots[chosen].classList.remove("on");
    chosen = place;
    if (!spots[chosen]) return;
    spots[chosen].classList.add("on");
    tip.textContent = spots[chosen].dataset.tip;
  };

  plot.addEventListener("pointermove", (event) => {
    const place = spots.indexOf(event.target.closest("[data-tip]"));
    if (place >= 0 && place !== chosen) choose(place);
  });
  plot.addEventListener("click", (event) => {
    choose(spots.indexOf(event.target.closest("[data-tip]")));
  });
  plot.addEventListener("keydown", (event) => {
    const last = spots.length - 1;
    const places = {
      ArrowRight: Math.min(last, chosen + 1),
      ArrowLeft: Math.max(0, chosen - 1),
      Home: 0,
      End: last,
    };
    if (!(event.key in places) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    choose(places[event.key]);
  });
}
