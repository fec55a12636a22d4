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
      "Faults forgiven",
      "Slow, strange and a little too long, but also one of the funniest films of the year.",
    ],
    [
      "Many negations",
      "It is not without flaws, but I would not call it dull, and I never wanted to leave.",
    ],
  ],
  imdb: [
    [
      "Won over",
      "The first half hour had me worried. The jokes are clumsy, the hero is hard to like, and the " +
        "music never stops.\n\n" +
        "Then the two sisters finally share a scene and the film comes alive. The dialogue is sharp, the " +
        "photography is beautiful, and the scene on the roof is one of the most moving things I have seen " +
        "this year. It runs a little long, but I left the cinema smiling, and I have already told three " +
        "friends to go. A wonderful surprise.",
    ],
    [
      "Let down",
      "The harbour at dawn, the letters, that wonderful old actor at the piano: for twenty minutes I " +
        "loved this film. The photography is beautiful and the music is a joy.\n\n" +
        "And then nothing happens. Plot threads are picked up and dropped, the characters explain their " +
        "feelings in full sentences, and the twist is obvious from the start. By the end I was checking " +
        "my watch. A dull, disappointing waste of a fine cast.",
    ],
    [
      "Mixed",
      "As a thriller it barely works, and anybody who has seen two of these will guess the ending. As a " +
        "portrait of a tired marriage it is superb: funny, honest and beautifully played. See it for the " +
        "kitchen scenes and forgive the rest.",
    ],
  ],
  trec: [
    ["A number", "How many bridges cross the river in Prague ?"],
    ["A place", "Where do monarch butterflies spend the winter ?"],
    ["A reason", "Why does bread rise when it is baked ?"],
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
