-- The same figures by plain SQL over the rows that the app copied, beside what the app kept.
.mode box
.headers on
SELECT 'flights in the file' AS figure, 336776 AS expected, count(*) AS found FROM Flights;
SELECT t.carrier, t.flights AS app_flights, s.flights AS sql_flights, t.miles AS app_miles, s.miles AS sql_miles,
       printf('%.3f', t.arrDelay) AS app_mean_delay, printf('%.3f', s.delay) AS sql_mean_delay, t.worst AS app_worst, s.worst AS sql_worst
FROM CarrierTotals t
JOIN (SELECT carrier, count(*) AS flights, sum(distance) AS miles, avg(arrDelay) AS delay, max(arrDelay) AS worst
      FROM Flights WHERE arrDelay IS NOT NULL GROUP BY carrier) s ON s.carrier = t.carrier
ORDER BY t.flights DESC;
