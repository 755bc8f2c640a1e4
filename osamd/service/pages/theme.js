// Light, dark, or the theme of the system. This is no module, so that it runs before the page is drawn and nothing flashes.
(() => {
  "use strict";
  const KEY = "osamd-theme";
  const kept = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is switched off: use the theme of the system
    }
  };
  const root = document.documentElement;
  const show = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  show(kept());

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const order = ["auto", "light", "dark"];
    let theme = root.dataset.theme ?? "auto";
    const label = () => {
      const word = document.createElement("span");
      word.className = "long";
      word.textContent = theme;
      button.replaceChildren({ auto: "◐ ", light: "○ ", dark: "● " }[theme], word);
      button.title = `Theme: ${theme}`;
      button.setAttribute("aria-label", button.title);
    };
    label();
    button.hidden = false;
    button.addEventListener("click", () => {
      theme = order[(order.indexOf(theme) + 1) % order.length];
      show(theme);
      label();
      try {
        localStorage.setItem(KEY, theme);
      } catch {
        // then it lasts as long as the page
      }
    });
  });
})();
