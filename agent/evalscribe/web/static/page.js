// Keys, decisions, filters, lasting links and live updates. Every page can be read without this script.
"use strict";
(() => {
  const body = document.body;
  const up = body.dataset.up;
  const isStatic = "static" in body.dataset;
  const token = document.querySelector('meta[name="evalscribe-token"]')?.content;
  const status = document.getElementById("status");
  let clearing;

  const say = (text) => {
    status.textContent = text;
    clearTimeout(clearing);
    clearing = setTimeout(() => { status.textContent = ""; }, 6000);
  };

  // ---- Cards -------------------------------------------------------------------------------------------------------
  const cards = () => [...document.querySelectorAll("article.card:not([hidden])")];
  let current = null;

  const select = (card) => {
    if (!card) return;
    current?.classList.remove("current");
    current = card;
    card.classList.add("current");
    card.focus({ preventScroll: true });
    card.scrollIntoView({ block: "nearest" });
    if (card.getBoundingClientRect().top < 0) card.scrollIntoView({ block: "start" });
  };

  const step = (by) => {
    const all = cards();
    const at = all.indexOf(current);
    const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by;
    if (next < 0) return;
    if (next < all.length) { select(all[next]); return; }
    const link = document.querySelector("a.next");
    if (link) location.assign(link.href);
    else say("That was the last finding.");
  };

  const show = (card) => {
    for (const group of card.querySelectorAll(".decide")) group.hidden = false;
  };

  const nextUndecided = (card) => {
    const all = cards();
    return all.slice(all.indexOf(card) + 1).find((other) => !other.classList.contains("decided"));
  };

  let queue = Promise.resolve();
  const decide = (card, action, more = {}) => {
    if (!card || !("editable" in card.dataset)) { say("This finding cannot be decided here."); return; }
    queue = queue.then(() => send(card, action, more)).catch((error) => say(String(error.message || error)));
  };

  const send = async (card, action, more) => {
    const now = document.getElementById(card.id) || card;
    const request = { action, report: now.dataset.report, n: Number(now.dataset.n), seen: now.dataset.seen, ...more };
    const answer = await fetch(`${up}decide`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Evalscribe-Token": token },
      body: JSON.stringify(request),
    });
    const result = await answer.json();
    if (result.card) replace(now, result.card, action, answer.ok);
    if (result.pending !== undefined) showPending(result.pending);
    say(answer.ok ? result.message : `Not written: ${result.message}`);
  };

  // The server renders the card with every value escaped; a parsed document runs no script.
  const parsed = (html) => new DOMParser().parseFromString(html, "text/html");

  const replace = (card, html, action, done) => {
    const fresh = document.importNode(parsed(html).querySelector("article"), true);
    for (const link of fresh.querySelectorAll("a[href]")) {
      const target = link.getAttribute("href");
      if (!/^[a-z]+:/i.test(target)) link.setAttribute("href", up + target);
    }
    card.replaceWith(fresh);
    show(fresh);
    if (done && action !== "undo") {
      fresh.classList.add("decided");
      fresh.querySelector('[data-action="undo"]').hidden = false;
    }
    if (card === current) {
      current = null;
      select(fresh);
      if (done && (action === "accept" || action === "label")) {
        undone.push(fresh.id);
        select(nextUndecided(fresh) || fresh);
      }
    }
    if (done && action === "note") undone.push(fresh.id);
  };

  const undone = [];  // ids of decided cards, newest last
  const undo = () => {
    const id = undone.pop();
    const card = id && document.getElementById(id);
    if (!card) { say("Nothing to undo on this page."); return; }
    select(card);
    decide(card, "undo");
  };

  const note = (card) => {
    const form = card?.querySelector("form.note");
    if (!form || !("editable" in card.dataset)) return;
    form.hidden = false;
    form.querySelector("input").focus();
  };

  const pending = document.getElementById("pending");
  const showPending = (html) => {
    if (!pending) return;
    pending.hidden = !html;
    pending.replaceChildren(...[...parsed(html).body.childNodes].map((node) => document.importNode(node, true)));
  };

  if (!isStatic) {
    for (const card of cards()) show(card);
    if (pending) fetch(`${up}pending`).then((answer) => answer.text()).then(showPending).catch(() => {});
  }

  document.addEventListener("click", (event) => {
    const card = event.target.closest("article.card");
    if (!card) return;
    if (card !== current) { current?.classList.remove("current"); current = card; card.classList.add("current"); }
    const button = event.target.closest("button[data-action]");
    if (!button) return;
    const { action, word } = button.dataset;
    if (action === "note") note(card);
    else if (action === "undo") { const at = undone.indexOf(card.id); if (at >= 0) undone.splice(at, 1); decide(card, "undo"); }
    else decide(card, action, word ? { label: word } : {});
  });

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form.note")) return;
    event.preventDefault();
    const card = form.closest("article.card");
    decide(card, "note", { note: form.elements.note.value });
    form.hidden = true;
  });

  // ---- Keys --------------------------------------------------------------------------------------------------------
  const help = document.getElementById("help");
  const words = ["MODEL_FAULT", "OVERLY_STRICT", "AMBIGUOUS_TASK", "KNOWN_GAP"];
  const helpButton = document.getElementById("help-button");
  if (helpButton) {
    helpButton.hidden = false;
    helpButton.addEventListener("click", () => help.showModal());
  }

  document.addEventListener("keydown", (event) => {
    const target = event.target;
    const typing = target.matches("input, select, textarea");
    if (event.key === "Escape" && typing) {
      target.closest("form.note")?.setAttribute("hidden", "");
      if (current) current.focus(); else target.blur();
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const key = event.key;
    if (key === "j") step(1);
    else if (key === "k") step(-1);
    else if (key === "/") document.querySelector('input[type="search"]')?.focus();
    else if (key === "?") help.showModal();
    else if (key === "Enter" && current && target === current) current.querySelector("h2 a, h3 a")?.click();
    else if (isStatic) return;
    else if (key === "u") undo();
    else if (!current) return;
    else if (key === "a") decide(current, "accept");
    else if (key === "n") note(current);
    else if (key >= "1" && key <= "4") decide(current, "label", { label: words[Number(key) - 1] });
    else return;
    event.preventDefault();
  });

  // ---- Filters of a table, in the address ---------------------------------------------------------------------------
  for (const form of document.querySelectorAll("form.filters")) {
    const rows = [...document.querySelectorAll("table.rows tbody tr")];
    const fields = [...form.elements].filter((field) => field.name);
    const apply = (change) => {
      const query = new URLSearchParams();
      for (const field of fields) if (field.value) query.set(field.name, field.value);
      const wanted = (query.get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = wanted.length ? row.textContent.toLowerCase() : "";
        row.hidden = !(wanted.every((word) => text.includes(word)) && fields.every((field) =>
          field.name === "q" || !field.value || row.dataset[field.name] === field.value));
      }
      if (change) history.replaceState(null, "", `${query.size ? `?${query}` : location.pathname}${location.hash}`);
    };
    if (isStatic) {
      const query = new URLSearchParams(location.search);
      for (const field of fields) field.value = query.get(field.name) || "";
      apply(false);
      form.addEventListener("input", () => apply(true));
      form.addEventListener("submit", (event) => { event.preventDefault(); apply(true); });
    } else {
      form.addEventListener("change", () => form.requestSubmit());
    }
  }

  // ---- Lasting links: #run/eval/finding/line ------------------------------------------------------------------------
  const follow = () => {
    const parts = location.hash.slice(1).split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
    const [run, evaluation, , line] = parts;
    const option = run.length < 4 ? null :
      [...document.querySelectorAll("option[data-href]")].find((one) => one.value === run || one.value.startsWith(run));
    if (option) {
      const rest = parts.slice(1).map(encodeURIComponent).join("/");
      location.replace(`${up}${option.dataset.href}${rest ? `#/${rest}` : ""}`);
      return;
    }
    if (parts.length < 2 || run !== "") return;
    const row = document.querySelector(`[data-eval="${CSS.escape(evaluation)}"]`) ||
      [...document.querySelectorAll("[data-evals]")].find((one) => one.dataset.evals.split("\n").includes(evaluation));
    const link = row?.querySelector("a");
    if (link) location.replace(`${link.href}${line ? `#${line}` : ""}`);
  };
  window.addEventListener("hashchange", follow);
  follow();

  // ---- Live updates -------------------------------------------------------------------------------------------------
  // An element with data-live names the path of a fragment; new children are appended, and changed ones replaced, by id.
  const refresh = async (element) => {
    const answer = await fetch(`${up}${element.dataset.live}`);
    if (!answer.ok) return;
    const fragment = parsed(await answer.text()).body.firstElementChild;
    if (!fragment) return;
    for (const child of fragment.children) {
      const old = child.id && document.getElementById(child.id);
      if (!old) element.append(document.importNode(child, true));
      else if (old.outerHTML !== child.outerHTML) old.replaceWith(document.importNode(child, true));
    }
    if (fragment.dataset.done !== undefined) delete element.dataset.live;
  };
  if (!isStatic) {
    for (const element of document.querySelectorAll("[data-live]")) {
      const again = () => refresh(element).catch(() => {}).finally(() => {
        if (element.dataset.live) setTimeout(again, 1000);
      });
      setTimeout(again, 1000);
    }
  }
})();
