SELECT DISTINCT p.id, p.name, time_bucket(INTERVAL '10 seconds', p."dateTime") AS starttime
FROM person AS p
JOIN auction AS a
  ON p.id = a.seller
  AND time_bucket(INTERVAL '10 seconds', p."dateTime") = time_bucket(INTERVAL '10 seconds', a."dateTime");
