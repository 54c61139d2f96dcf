-- Which of several equal bids has which rank is open: what is determined is the price at each rank.

SELECT auction, price, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
FROM bid
QUALIFY rank_number <= 10;
