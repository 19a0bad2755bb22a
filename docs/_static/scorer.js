// How the search ranks: Sphinx's scores, and chapters, guides and the glossary before decisions and other mentions.
var Scorer = {
  score: (found) => {
    const [page, , , , score, , kind] = found;
    if (kind === "index") found[2] = "";  // its entries stand at the top of a page, which is then found once, not twice
    return score + (/^(learn|guides)\/|^glossary$/.test(page) ? 6 : /^(decisions|_modules)\/|^CHANGELOG$/.test(page) ? -4 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
