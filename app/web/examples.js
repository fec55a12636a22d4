/** Texts to try at one click, by the name of a shipped model. */

const EXAMPLES = {
  sst2: [
    [
      "A turn at the end",
      "The trailer promised a mess, the first act nearly delivers one, and yet the last half hour is " +
        "quietly magnificent.",
    ],
    [
      "Faint praise",
      "Handsome to look at and never once alive: two careful hours that mistake silence for depth.",
    ],
    [
      "Negation",
      "It is not without flaws, but I would not call it dull, and I never wanted to leave.",
    ],
    [
      "A question",
      "Who asked for a third one, and why is it this good?",
    ],
  ],
  imdb: [
    [
      "Won over",
      "I went in with low expectations. The poster is awful and the opening ten minutes are worse: " +
        "clumsy jokes, a song nobody needed, a hero I wanted to shake.\n\n" +
        "Then the two sisters finally share a scene and everything changes. The dialogue loosens, the " +
        "camera stops fidgeting, and by the time they are fixing the roof in the rain I had forgotten " +
        "that I was ever annoyed. It is still too long, and the villain is a cartoon. But I left the " +
        "cinema grinning, and I have already told three friends to go.",
    ],
    [
      "Let down",
      "The director's last film was one of my favourites of the decade, so I cleared an evening for " +
        "this one. It starts beautifully. The harbour at dawn, the letters, that wonderful old actor at " +
        "the piano: for twenty minutes I was in love.\n\n" +
        "And then nothing. Plot threads are picked up and dropped, characters explain their feelings to " +
        "each other in full sentences, and the twist can be seen from the car park. By the end I was " +
        "checking my watch. A waste of a fine cast.",
    ],
    [
      "Mixed",
      "As a thriller it barely works, since anybody who has seen two of these will guess the ending. As " +
        "a portrait of a tired marriage it is superb: funny, cruel and exactly observed. See it for the " +
        "kitchen scenes and forgive the rest.",
    ],
  ],
  "ag-news": [
    [
      "Business",
      "Shares in the airline fell by nine percent on Tuesday after it warned that rising fuel prices " +
        "would wipe out most of its profit for the quarter.",
    ],
    [
      "Science and technology",
      "Engineers have built a battery that charges in under five minutes, and say that the same chip " +
        "design could one day power satellites and hearing aids alike.",
    ],
    [
      "Sport",
      "The visitors came from two goals down in the final ten minutes to win the cup, their third " +
        "trophy in a season that began with the captain on crutches.",
    ],
    [
      "World",
      "Talks between the two governments resumed in the capital on Monday, a week after observers " +
        "reported fresh shelling along the disputed border.",
    ],
    [
      "Between two",
      "The football league has sued a software company over an app that let millions of fans watch " +
        "matches without paying.",
    ],
  ],
};

/**
 * @param {{name: string, polarity: number[] | null}} model an entry of the model list
 * @returns {[string, string][]} titles and texts; of other models only those with a polarity are known to fit any
 */
export function examplesFor(model) {
  return EXAMPLES[model.name] ?? (model.polarity ? EXAMPLES.sst2 : []);
}
