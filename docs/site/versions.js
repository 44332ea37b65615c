// Selector of versions in the header. versions.js, next to the folders of the versions, has the list:
// a script, because browsers read no other files for pages opened from a folder.
(() => {
  const home = new URL("../", document.currentScript.src);
  const here = decodeURIComponent(home.pathname.split("/").at(-2));
  const top = new URL("../", home);

  function show() {
    const versions = globalThis.TVMRT_VERSIONS;
    const title = document.querySelector(".md-header__title");
    const current = versions.find((each) => each.version === here || each.aliases.includes(here));
    if (!title || !current) return;
    const select = document.createElement("select");
    select.className = "tvmrt-versions";
    select.setAttribute("aria-label", "Version of the documentation");
    for (const { version, title } of versions) {
      select.add(new Option(title, version, false, version === current.version));
    }
    select.addEventListener("change", () => {
      const chosen = versions.find((each) => each.version === select.value);
      const page = decodeURIComponent(location.href.split(/[?#]/)[0]).slice(decodeURIComponent(home.href).length);
      const path = chosen.pages.includes(page) ? page : "index.html";
      location.assign(new URL(`${encodeURIComponent(chosen.version)}/${path}`, top));
    });
    title.after(select);
  }

  const list = document.createElement("script");
  list.src = new URL("versions.js", top);
  list.addEventListener("load", show);
  document.head.append(list);
})();
