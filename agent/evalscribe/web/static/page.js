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

  // Decisions are written one after the other, while the reviewer is already on the next card: keys pressed meanwhile
  // belong to that card. A refused decision is marked on its card and does not move the focus.
  const decisions = [];  // ids of the cards with decisions to undo, newest last
  let queue = Promise.resolve();
  const decide = (card, action, more = {}) => {
    if (!card || !("editable" in card.dataset)) { say("This finding cannot be decided here."); return; }
    const { id } = card;
    if (action !== "undo") decisions.push(id);
    if (action === "accept" || action === "label") {
      card.classList.add("decided");
      if (card === current) select(nextUndecided(card) || card);
    }
    queue = queue.then(() => send(id, action, more)).catch((error) => refuse(id, action, String(error.message || error)));
  };

  const total = document.getElementById("undecided");
  const onArrival = Number(total?.dataset.count);
  const count = () => {
    if (!total) return;
    const left = onArrival - document.querySelectorAll("article.card.decided").length;
    total.textContent = left.toLocaleString("en");
  };

  const forget = (id) => { const at = decisions.lastIndexOf(id); if (at >= 0) decisions.splice(at, 1); };

  const refuse = (id, action, reason) => {
    const card = document.getElementById(id);
    if (action !== "undo") forget(id);
    say(`Not written: ${reason}`);
    if (!card) return;
    card.classList.remove("decided");
    card.querySelector(".refused")?.remove();
    const problem = document.createElement("p");
    problem.className = "problem refused";
    problem.textContent = `Not written: ${reason}`;
    card.querySelector(".facts").after(problem);
  };

  const send = async (id, action, more) => {
    const { report, n, seen } = document.getElementById(id).dataset;
    const answer = await fetch(`${up}decide`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Evalscribe-Token": token },
      body: JSON.stringify({ action, report, n: Number(n), seen, ...more }),
    }).catch(() => { throw new Error("the server has ended; start `evalscribe view` again"); });
    const text = await answer.text();
    let result;
    try { result = JSON.parse(text); } catch { result = { message: text.trim() }; }
    if (result.card) replace(id, result.card, action, answer.ok);
    if (result.pending !== undefined) showPending(result.pending);
    if (!answer.ok) { refuse(id, action, result.message); return; }
    if (result.changed === false) forget(id);
    count();
    say(result.message);
  };

  // The server renders the card with every value escaped; a parsed document runs no script.
  const parsed = (html) => new DOMParser().parseFromString(html, "text/html");

  const replace = (id, html, action, done) => {
    const card = document.getElementById(id);
    const fresh = document.importNode(parsed(html).querySelector("article"), true);
    for (const link of fresh.querySelectorAll("a[href]")) {
      const target = link.getAttribute("href");
      if (!/^[a-z]+:/i.test(target)) link.setAttribute("href", up + target);
    }
    const focus = card.contains(document.activeElement) ? document.activeElement : null;
    const note = card.querySelector("form.note:not([hidden])");  // its text is not lost
    card.replaceWith(fresh);
    show(fresh);
    if (note) fresh.querySelector("form.note")?.replaceWith(note);
    if (done && action !== "undo") {
      fresh.classList.add("decided");
      fresh.querySelector('[data-action="undo"]').hidden = false;
    }
    if (card === current) { current = fresh; fresh.classList.add("current"); }
    if (focus) (note?.contains(focus) ? focus : fresh).focus({ preventScroll: true });
  };

  // Decided on a page that has been left: the server knows which one was the last.
  const undoLast = async () => {
    const answer = await fetch(`${up}decide`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Evalscribe-Token": token },
      body: JSON.stringify({ action: "undo", report: "", n: 1 }),
    }).catch(() => null);
    const result = await answer?.json().catch(() => null);
    if (answer?.ok && result?.changed) location.reload();
    else say(result?.message || "The server has ended; start `evalscribe view` again.");
  };

  const undo = () => {
    const id = decisions.pop();
    const card = id && document.getElementById(id);
    if (!card) { undoLast(); return; }
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
    else if (action === "undo") { forget(card.id); decide(card, "undo"); }
    else decide(card, action, word ? { label: word } : {});
  });

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form.note")) return;
    event.preventDefault();
    const card = form.closest("article.card");
    form.hidden = true;
    select(card);
    decide(card, "note", { note: form.elements.note.value });
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

  // ---- Columns of the matrix of tasks and runs ------------------------------------------------------------------------
  const hideColumns = (fields) => {
    const [groups, runs] = document.querySelectorAll(".matrix thead tr");
    if (!runs) return;
    const isHidden = (cell) => fields.some((field) =>
      field.value && field.name in cell.dataset && cell.dataset[field.name] !== field.value);
    const hidden = [...runs.cells].map(isHidden);
    for (const row of document.querySelectorAll(".matrix tbody tr")) {
      hidden.forEach((hide, at) => { row.cells[at].hidden = hide; });
      row.hidden ||= !row.querySelector("td:not([hidden]) .result:not(.unlisted)");
    }
    hidden.forEach((hide, at) => { runs.cells[at].hidden = hide; });
    for (const group of [...groups.cells].slice(1)) {
      const left = [...runs.cells].filter((cell) => !cell.hidden && cell.dataset.model === group.dataset.model).length;
      group.hidden = left === 0;
      group.colSpan = left || 1;
    }
  };

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
          field.name === "q" || !field.value || (row.dataset[field.name] ?? field.value).split("\n").includes(field.value)));
      }
      hideColumns(fields);
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
  // From the inbox to the page of the run, to that of the eval, to the line: each page knows the next one.
  const evidence = document.querySelector(".evidence");
  const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
  const follow = () => {
    const hash = location.hash.slice(1);
    const parts = hash.split("/").map(decoded);
    const [run, evaluation, , line] = parts;
    const rest = parts.length > 1 ? `#/${hash.split("/").slice(1).join("/")}` : "";
    const options = run.length < 4 ? [] : [...document.querySelectorAll("option[data-href]")];
    const option = options.find((one) => one.value === run) || options.find((one) => one.value.startsWith(run));
    if (option) { location.replace(`${up}${option.dataset.href}${rest}`); return; }
    if (parts.length < 2) { if (evidence && hash) arrive(decoded(hash)); return; }
    if (run !== "") return;
    if (evidence?.dataset.eval === evaluation) { if (line) goTo(line); return; }
    const other = [...document.querySelectorAll("[data-other]")].find((one) => one.dataset.other === evaluation);
    const row = document.querySelector(`[data-eval="${CSS.escape(evaluation)}"]`) ||
      [...document.querySelectorAll("[data-evals]")].find((one) => one.dataset.evals.split("\n").includes(evaluation));
    const link = other || (evidence ? null : row?.querySelector("a"));
    const next = link ? null : document.querySelector("a.next-rows");
    if (next) location.replace(`${next.href.split("#")[0]}${location.hash}`);
    else if (link) location.replace(`${link.href}${rest}`);
    else say(`There is no ${evaluation} here.`);
  };

  // ---- Lines of evidence --------------------------------------------------------------------------------------------
  const documents = [...document.querySelectorAll("[data-base]")];
  const goTo = (place) => {
    const [, path, n] = place.match(/^([^]*?)(?::(\d{1,9}))?$/);
    const target = documents.find((one) => one.dataset.name === path) || documents.find((one) => one.dataset.path === path);
    if (target) location.replace(`#${n ? target.dataset.base + n : target.id}`);
    else say(`There is no document ${path} here.`);
  };
  // The target of a link may be in a closed part of the page, or on another page of its document.
  const arrive = (id) => {
    const element = document.getElementById(id);
    if (element) {
      let opened = false;
      for (let part = element.closest("details:not([open])"); part; part = part.closest("details:not([open])")) {
        part.open = opened = true;
      }
      if (opened) element.scrollIntoView();
      offerLink(element.closest(".line, .what"));
      return;
    }
    const [, base, n] = id.match(/^(.*?)(\d{1,9})$/) || [];
    const target = documents.find((one) => one.dataset.base === base);
    if (!target) return;
    const starts = (target.dataset.starts || "").split(" ").map(Number);
    const page = Math.max(1, starts.filter((start) => start <= Number(n)).length);
    const there = new URL(`${target.dataset.file}${page}.html#${id}`, location.href);
    if (!target.dataset.starts || there.pathname === location.pathname) say(`This document has no number ${n}.`);
    else location.replace(there);
  };
  const lasting = document.createElement("a");
  lasting.className = "lasting";
  const offerLink = (line) => {
    const [, base, n] = line?.id.match(/^(.*-L)(\d+)$/) || [];
    const source = documents.find((one) => one.dataset.base === base);
    if (!source) return;
    const { run, eval: evaluation, n: finding } = evidence.dataset;
    const parts = [run, evaluation, finding, `${source.dataset.name}:${n}`].map(encodeURIComponent);
    lasting.textContent = `link to line ${n}`;
    lasting.href = new URL(`${up}index.html#${parts.join("/")}`, location.href);
    if (lasting.parentElement !== line) line.append(lasting);
  };
  if (evidence) {
    for (const name of ["pointerover", "focusin"]) {
      evidence.addEventListener(name, (event) => offerLink(event.target.closest(".line[id], .what[id]")));
    }
    lasting.addEventListener("click", (event) => {
      if (!navigator.clipboard || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      navigator.clipboard.writeText(lasting.href).then(() => say("Link copied."), () => location.assign(lasting.href));
    });
    for (const form of evidence.querySelectorAll("form.jump")) {
      form.hidden = false;
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        location.hash = form.dataset.for + form.elements.number.value;
      });
    }
  }
  window.addEventListener("hashchange", follow);
  follow();

  // ---- Live updates -------------------------------------------------------------------------------------------------
  // An element with data-live names the path of a fragment; new children are appended, and changed ones replaced, by id.
  // The fragment may name the next one in its own data-live, so that each has only what is new. With data-done there is
  // none; its value is the path of the page to go to, unless somebody is typing. A fragment has all its children if it
  // names the same path again: children that it lacks are then removed.
  const received = new Map();  // the HTML of each child as it was sent: a reader may have opened what it folds
  const refresh = async (element) => {
    const answer = await fetch(`${up}${element.dataset.live}`);
    if (!answer.ok) throw new Error(answer.statusText);
    const fragment = parsed(await answer.text()).body.firstElementChild;
    const { live, done } = fragment.dataset;
    if (live === element.dataset.live && element.dataset.every) {
      const ids = new Set([...fragment.children].map((child) => child.id));
      for (const old of [...element.children]) if (!ids.has(old.id)) { received.delete(old.id); old.remove(); }
    }
    for (const child of fragment.children) {
      const html = child.outerHTML;
      if (child.id && received.get(child.id) === html) continue;
      received.set(child.id, html);
      const fresh = document.importNode(child, true);
      const old = child.id && document.getElementById(child.id);
      if (!old) { element.append(fresh); continue; }
      const folds = fresh.querySelectorAll("details");
      [...old.querySelectorAll("details")].forEach((fold, at) => { if (folds[at]) folds[at].open = fold.open; });
      old.replaceWith(fresh);
    }
    element.dataset.live = live || element.dataset.live;
    if (done === undefined) return;
    delete element.dataset.live;
    if (done && !document.activeElement?.matches("input, textarea, select")) location.replace(up + done);
  };
  if (!isStatic) {
    for (const element of document.querySelectorAll("[data-live]")) {
      const every = 1000 * (Number(element.dataset.every) || 1);
      let wait = every;
      for (const child of element.children) if (child.id) received.set(child.id, child.outerHTML);
      const again = async () => {
        try {
          if (!document.hidden) await refresh(element);
          wait = every;
        } catch {
          wait = Math.min(2 * wait, 30000);  // the server has ended, or is busy
        }
        if (element.dataset.live) setTimeout(again, wait);
      };
      setTimeout(again, wait);
    }
  }
})();
