"""How every page of ours looks: light and dark, narrow and wide, on screen and on paper."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--ink:#1a1a1a;--faint:#595955;--paper:#fff;--soft:#f4f4f1;--line:#cfcfca;--link:#0b5394;
--good:#00603f;--bad:#a02c00;--wait:#6b5200}
@media(prefers-color-scheme:dark){:root{--ink:#e8e8e4;--faint:#aeaea8;--paper:#161616;--soft:#222221;--line:#4a4a47;
--link:#8cc4ff;--good:#5fd3a5;--bad:#ff9a6b;--wait:#e3c14f}}
*{box-sizing:border-box}
html{scroll-padding-top:1rem}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main,header,footer,nav{margin:0 auto;max-width:72rem;padding:0 1.2rem}
header{padding-top:1.2rem}footer{padding-bottom:3rem;color:var(--faint)}
a{color:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:.5rem;background:var(--paper);padding:.4rem .8rem;z-index:2}
h1{font-size:1.5rem;margin:.2rem 0 .8rem}h2{font-size:1.25rem;border-top:1px solid var(--line);padding-top:.9rem;
margin:2.4rem 0 .6rem}h3{font-size:1.05rem;margin:1.6rem 0 .4rem}h4{font-size:1rem;margin:.6rem 0 .3rem}
p,ul{max-width:56rem}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;padding:0;margin:.4rem 0;max-width:none}
.verdict{font-weight:700;font-size:1.5rem;margin:.2rem 0;padding:.35rem .8rem;border-left:.5rem solid;max-width:56rem;
background:var(--soft)}
.good{color:var(--good)}.bad{color:var(--bad)}.wait{color:var(--wait)}.faint{color:var(--faint)}.lead{font-size:1.12rem}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));gap:.6rem;margin:1rem 0;max-width:72rem}
.facts div{background:var(--soft);padding:.55rem .75rem;border-radius:4px}
.facts dt{font-size:.86rem;color:var(--faint)}.facts dd{margin:0;font-weight:600;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto;max-width:100%;margin:.5rem 0}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--faint);padding:.2rem 0}
th,td{border:1px solid var(--line);padding:.25rem .55rem;text-align:left;vertical-align:top}
thead th{background:var(--soft)}tbody th{font-weight:500}
table:not(.long) td{white-space:nowrap}
.long td{overflow-wrap:anywhere;min-width:6rem}
th button{all:unset;cursor:pointer}th button:focus-visible{outline:3px solid var(--link)}
th[aria-sort=ascending] button::after{content:" \\25B2"}th[aria-sort=descending] button::after{content:" \\25BC"}
figure{margin:1.4rem 0}figcaption{font-size:.92rem;max-width:56rem}
figure img{display:block;max-width:100%;min-width:38rem;height:auto;background:#fff}
details{margin:.35rem 0}summary{cursor:pointer;padding:.15rem 0}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--soft);padding:.5rem;margin:.3rem 0;font-size:.85rem}
code{overflow-wrap:anywhere}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:1rem}.pair>*{min-width:0}
.turn{border-left:4px solid var(--line);padding-left:.6rem;margin:.6rem 0}.deciding{border-color:var(--bad)}
article{border:1px solid var(--line);border-radius:4px;padding:.1rem .8rem;margin:.5rem 0}
form{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:end;margin:.8rem 0}
label{display:grid;font-size:.88rem;gap:.15rem;max-width:100%}
select,input,form button{font:inherit;color:inherit;background:var(--soft);border:1px solid var(--faint);border-radius:4px;
padding:.3rem .5rem;max-width:100%}
[hidden]{display:none!important}
@media(max-width:50rem){.pair{grid-template-columns:1fr}main,header,footer,nav{padding-left:.8rem;padding-right:.8rem}}
@media print{:root{color-scheme:light}nav,form,.skip{display:none}body{font-size:10pt}.scroll{overflow:visible}
figure,article,tr{break-inside:avoid}figure img{min-width:0}}
"""
