// Databases, schemas and tables: what they are, what they were, and how to reach them.

import { get } from "./api.js";
import { bytes, copyable, count, el, show } from "./dom.js";
import { Grid } from "./grid.js";
import { report } from "./main.js";

const path = (...names) => `/catalog/${names.map(encodeURIComponent).join("/")}`;

export async function open(content, [database, schema, table], server) {
  const tree = el("nav", { class: "tree", "aria-label": "Tables" });
  const detail = el("section", { class: "detail" });
  show(content, el("div", { class: "split" }, tree, detail));
  const databases = await get("/api/databases");
  drawTree(tree, databases, [database, schema, table]);
  if (table) await drawTable(detail, database, schema, table, server);
  else show(detail, welcome(server, databases));
}

function drawTree(tree, databases, [database, schema, table]) {
  const filter = el("input", { type: "search", placeholder: "Filter tables", "aria-label": "Filter tables" });
  const list = el("div");
  const draw = () => {
    const word = filter.value.toLowerCase();
    show(list, databases.map((one) => el("div", {}, el("h2", {}, one.name), one.schemas.map((part) => {
      const tables = part.tables.filter((each) => !word || `${part.name}.${each.name}`.toLowerCase().includes(word));
      if (!tables.length && (word || part.name === "sparkport")) return null;
      return el("details", { open: true }, el("summary", { title: part.comment }, part.name), el("ul", {}, tables.map((each) => {
        const isCurrent = one.name === database && part.name === schema && each.name === table;
        return el("li", {}, el("a", { href: path(one.name, part.name, each.name), "aria-current": isCurrent ? "page" : null, title: each.comment }, each.name));
      })));
    }))));
  };
  filter.addEventListener("input", draw);
  show(tree, filter, list);
  draw();
}

function welcome(server, databases) {
  const name = server.default || databases[0]?.name || "lakehouse";
  const secret = server.needs_token ? `CREATE SECRET (TYPE airport, auth_token '<token>', SCOPE '${server.location}');\n` : "";
  const token = server.needs_token ? ', token="<token>"' : "";
  const target = server.location.replace(/^grpc(\+tls)?:\/\//, "");
  const isEncrypted = server.location.startsWith("grpc+tls");
  return [
    el("h1", {}, "Connect"),
    el("p", { class: "muted" }, `sparkport ${server.version} at ${server.location}`),
    copyable("DuckDB", `INSTALL airport FROM community; LOAD airport;\n${secret}ATTACH '${name}' (TYPE airport, LOCATION '${server.location}');\nSHOW ALL TABLES;`),
    copyable("Python", `import sparkport\n\nwith sparkport.connect("${server.location}"${token}) as client:\n    print(client.tables())`),
    copyable("ADBC", `import adbc_driver_flightsql.dbapi as adbc\n\nconnection = adbc.connect("${server.location}"${server.needs_token ? ',\n    db_kwargs={"adbc.flight.sql.authorization_header": "Bearer <token>"}' : ""})`),
    copyable("JDBC", `jdbc:arrow-flight-sql://${target}/?useEncryption=${isEncrypted}${server.needs_token ? "&token=<token>" : ""}`),
  ];
}

async function drawTable(detail, database, schema, table, server) {
  const address = { database, schema, table };
  const about = await get("/api/table", address);
  const rows = el("div");
  const facts = [
    ["Rows", count(about.rows)],
    ["Size", about.detail.size_in_bytes === undefined ? null : bytes(about.detail.size_in_bytes)],
    ["Files", about.detail.num_files === undefined ? null : count(about.detail.num_files)],
    ["Version", about.version === null ? null : String(about.version)],
    ["Read by", about.detail.read_mode?.split(":")[0]],
  ].filter(([, value]) => value);
  show(detail,
    el("p", { class: "crumbs" }, `${database} / ${schema}`), el("h1", {}, table),
    about.comment && el("p", {}, about.comment),
    el("dl", { class: "facts" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    el("p", {}, el("a", { class: "button", href: `/sql?q=${encodeURIComponent(`SELECT * FROM ${quote(schema)}.${quote(table)} LIMIT 100`)}` }, "Query this table")),
    el("h2", {}, "Columns"),
    el("table", { class: "plain" }, el("thead", {}, el("tr", {}, ["Name", "Type", "NULL", "Comment"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, about.columns.map((column) => el("tr", {}, el("th", { scope: "row" }, column.name), el("td", {}, el("code", {}, column.type)),
        el("td", {}, column.nullable ? "yes" : "no"), el("td", {}, column.comment))))),
    about.constraints.length ? [el("h2", {}, "Constraints"), el("ul", {}, about.constraints.map((one) => el("li", {}, el("code", {}, one))))] : null,
    el("h2", {}, "Rows"), slider(about, address, rows), rows,
    about.history.length ? [el("h2", {}, "History"), history(about.history)] : null,
    el("h2", {}, "Use it"),
    copyable("DuckDB", `SELECT * FROM ${quote(server.default || database)}.${quote(schema)}.${quote(table)};`),
    copyable("Python", `client.scan(${JSON.stringify(schema)}, ${JSON.stringify(table)}).read_all()`),
  );
  await drawRows(rows, address, "");
}

function slider(about, address, rows) {
  const newest = Number(about.version);
  if (!Number.isInteger(newest) || newest < 1) return null;
  const said = el("output", { for: "version" }, `version ${newest} (now)`);
  let timer = 0;
  const range = el("input", { id: "version", type: "range", min: 0, max: newest, value: newest, "aria-label": "Version of the table" });
  range.value = newest;
  range.addEventListener("input", () => {
    const version = Number(range.value);
    const commit = about.history.find((one) => Number(one.version) === version);
    said.textContent = `version ${version}${version === newest ? " (now)" : ""}${commit ? ` · ${commit.operation || ""} · ${commit.timestamp || ""}` : ""}`;
    clearTimeout(timer);
    timer = setTimeout(() => drawRows(rows, address, version === newest ? "" : String(version)).catch(report), 150);
  });
  return el("div", { class: "row" }, range, said);
}

let wanted = 0;
async function drawRows(rows, address, version) {
  wanted += 1;
  const own = wanted;
  let grid;
  try {
    const sample = await get("/api/rows", { ...address, version, limit: 100 });
    grid = new Grid(sample.columns, `Rows of ${address.table}`);
    if (sample.rows) grid.add(sample.values, sample.rows);
    grid.element.classList.add("low");
  } catch (error) {
    if (own !== wanted) return;
    if (error.code === "UNAUTHENTICATED" || error.code === "DOWN") throw error;
    show(rows, el("p", { class: "error" }, error.message));
    return;
  }
  if (own === wanted) show(rows, grid.element, el("p", { class: "muted" }, grid.rows < 100 ? grid.summary() : "the first 100 rows"));
}

function history(commits) {
  return el("table", { class: "plain" }, el("thead", {}, el("tr", {}, ["Version", "Time", "Operation", "By"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, commits.slice(0, 200).map((one) => el("tr", {}, el("th", { scope: "row" }, String(one.version)), el("td", {}, one.timestamp || ""),
      el("td", {}, one.operation || ""), el("td", {}, one.user_name || one.engine_info || "")))));
}

const quote = (name) => (/^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
