#!/bin/bash
set -e
cd /app
echo cloud > value.txt
echo 59 > out.txt
echo glass > final.txt
