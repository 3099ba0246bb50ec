-- A consumer notes that what ended grants gave has to be copied again: credits were given back to them.
grant update (told_turn) on grant_classes, grants to keytally_consumer;
