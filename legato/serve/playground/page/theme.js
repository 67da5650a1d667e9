"use strict";
// Before the first paint: light or dark as chosen, else as the system has it.
try {
  const theme = localStorage.getItem("legato.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // No storage: the system decides.
}
