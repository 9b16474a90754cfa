// The style sheet of an experiment's report: the look of the dashboard (daemon/web/page/page.css),
// the colours of series, and rules for printing.
#pragma once

namespace atolld {

inline constexpr char kReportStyle[] = R"css(
:root {
  color-scheme: light dark;
  --page: #f6f7f8; --card: #ffffff; --line: #e1e5e8; --text: #1b2329; --muted: #56636d;
  --s0: #0072b2; --s1: #d55e00; --s2: #00805d; --s3: #b8528c;
  --s4: #8a6d00; --s5: #2f8fc4; --s6: #6d5bb8; --s7: #4b4b4b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #11171b; --card: #192126; --line: #2c373e; --text: #e4eaed; --muted: #9aa8b1;
    --s0: #56b4e9; --s1: #f08a4b; --s2: #35c59b; --s3: #e59cc4;
    --s4: #e6c84f; --s5: #8fd0f5; --s6: #b3a4f0; --s7: #c9c9c9;
  }
}
*, *::before, *::after { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif;
  font-variant-numeric: tabular-nums;
}
main { margin: 0 auto; padding: 0 clamp(12px, 2.5vw, 32px) 24px; max-width: 1680px; }
h1 { font-size: 22px; margin: 20px 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 0 0 8px; }
p { margin: 0 0 10px; color: var(--muted); max-width: 75ch; }
section {
  margin: 16px 0; padding: 14px; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px;
}
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; color: var(--muted); padding-bottom: 6px; }
th, td { padding: 5px 10px; border-bottom: 1px solid var(--line); text-align: right; }
thead th { color: var(--muted); font-weight: 600; }
th:first-child { text-align: left; font-weight: 600; }
td { white-space: nowrap; }
.words th, .words td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 12px;
  padding: 0; }
.mark { width: 30px; height: 10px; margin-right: 6px; vertical-align: middle; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(330px, 100%), 1fr));
  gap: 16px; }
figure { margin: 0; max-width: 640px; min-width: 0; }
figcaption { color: var(--muted); margin-bottom: 6px; }
figure svg, figure img { display: block; width: 100%; height: auto; }
.plot text { font-size: 13px; fill: var(--muted); }
.plot .title { font-weight: 600; fill: var(--text); }
.grid { stroke: var(--line); fill: none; }
.line { fill: none; stroke-width: 2; }
.band { opacity: 0.18; }
.range { fill: none; stroke-width: 8; opacity: 0.45; }
.s0 { stroke: var(--s0); } .s1 { stroke: var(--s1); } .s2 { stroke: var(--s2); }
.s3 { stroke: var(--s3); } .s4 { stroke: var(--s4); } .s5 { stroke: var(--s5); }
.s6 { stroke: var(--s6); } .s7 { stroke: var(--s7); }
.band.s0, .dot.s0 { fill: var(--s0); } .band.s1, .dot.s1 { fill: var(--s1); }
.band.s2, .dot.s2 { fill: var(--s2); } .band.s3, .dot.s3 { fill: var(--s3); }
.band.s4, .dot.s4 { fill: var(--s4); } .band.s5, .dot.s5 { fill: var(--s5); }
.band.s6, .dot.s6 { fill: var(--s6); } .band.s7, .dot.s7 { fill: var(--s7); }
path.band { stroke: none; }
.line.d1 { stroke-dasharray: 7 3; } .line.d2 { stroke-dasharray: 2 3; }
.line.d3 { stroke-dasharray: 8 3 2 3; }
pre { margin: 0 0 12px; padding: 10px; overflow-x: auto; background: var(--page);
  border: 1px solid var(--line); border-radius: 6px; font-size: 13px; }
@media print { section { break-inside: avoid; } .wide, pre { overflow: visible; }
  pre { white-space: pre-wrap; } }
)css";

}  // namespace atolld
