-- One line per figure: name, by the app, by plain SQL. Equal, or the demo fails.
.mode list
.separator '|'
SELECT 'rows copied', count(*), 336776 FROM Flights;
SELECT 'carriers', count(*), (SELECT count(DISTINCT carrier) FROM Flights WHERE arrDelay IS NOT NULL) FROM CarrierTotals;
SELECT 'arrivals counted', sum(flights), (SELECT count(*) FROM Flights WHERE arrDelay IS NOT NULL) FROM CarrierTotals;
SELECT 'miles flown', sum(miles), (SELECT sum(distance) FROM Flights WHERE arrDelay IS NOT NULL) FROM CarrierTotals;
SELECT 'carriers whose mean delay differs', count(*), 0
FROM CarrierTotals t
JOIN (SELECT carrier, avg(arrDelay) AS delay FROM Flights WHERE arrDelay IS NOT NULL GROUP BY carrier) s ON s.carrier = t.carrier
WHERE abs(t.arrDelay - s.delay) > 1e-9 * abs(s.delay);
SELECT 'full thousands', count(*), (SELECT count(*) / 1000 FROM Flights) FROM Thousands;
SELECT 'miles in full thousands', sum(miles),
       (SELECT sum(distance) FROM Flights WHERE rowid <= (SELECT count(*) / 1000 * 1000 FROM Flights)) FROM Thousands;
SELECT 'moments of a jam', count(*),
       (SELECT count(*) FROM (
          SELECT avg(depDelay) OVER (PARTITION BY origin ORDER BY rowid ROWS BETWEEN 99 PRECEDING AND CURRENT ROW) AS mean
          FROM Flights WHERE depDelay IS NOT NULL) WHERE mean > 90.0) FROM Jams;
